"""A stand-in for `vllm serve`: the endpoints, counters, log lines and failures of the real one.

The real one takes about 45 s to start on a CPU; this one takes as long as STAND_IN_START says, so
that switching can be tested with real agents, supervisors and processes within seconds. It drafts
well where the drafter's config.json has the mask token of the tiny pair, and badly elsewhere, as
measured with the real server (models/README.md).

Environment: STAND_IN_START (seconds until it listens), STAND_IN_FAULT (`start`: rc 1 instead of
listening · `smoke`: answers that are no Python · `hang`: SIGTERM is ignored while it serves ·
`start N`, `late N`: rank N of a group alone fails, or never comes · `deaf`: its ranks never meet ·
`gauges`: those of requests read 0, as while a real engine hangs ·
`sleep`, `wake`: it does not sleep, or not wake),
STAND_IN_PACE (JSON: seconds that each answer takes, by the number of draft tokens),
STAND_IN_TELLS (names of variables whose values it prints), STAND_IN_HANGS (a file: while it exists
completions never come, as while a real engine hangs).

With --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1 it can be put to sleep, as vLLM 0.20 to 0.33 can
(entrypoints/serve/sleep/api_router.py, later serve/dev/sleep): requests wait meanwhile. The
middleware that --middleware names is the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MASK_TOKEN = 3
ANSWER = "def quicksort(items):\n    return sorted(items)\n"
PROMPT_TOKENS, TOKENS = 12, 80
COUNTERS = threading.Lock()
PACE: dict[str, float] = json.loads(os.environ.get("STAND_IN_PACE") or "{}")
FAULT = os.environ.get("STAND_IN_FAULT")
GAUGES_LIE = FAULT == "gauges"
DEV_MODE = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"


class Server:
    """What is served and what has been counted."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name = options.served_model_name
        self.length = int(options.max_model_len or 1024)
        self.tracks = options.enable_server_load_tracking
        speculation = json.loads(options.speculative_config or "null")
        self.draft_tokens = speculation["num_speculative_tokens"] if speculation else 0
        self.accepted_each = accepted_each(speculation, self.draft_tokens)
        self.awake = threading.Event()
        self.awake.set()
        self.can_sleep = options.enable_sleep_mode
        self.requests = self.tokens = self.drafts = self.accepted = self.running = 0

    def count(self, tokens: int) -> None:
        """A request of so many tokens; one ends before a draft is verified."""
        with COUNTERS:
            self.requests += 1
            self.tokens += tokens
            if self.draft_tokens and tokens > 1:
                drafts = TOKENS // (self.accepted_each + 1)
                self.drafts += drafts
                self.accepted += drafts * self.accepted_each

    def load(self) -> int:
        """What it counts at its door: 0 unless it was started with the option."""
        return self.running if self.tracks else 0

    def metrics(self) -> str:
        labels = f'engine="0",model_name="{self.name}"'
        awake = int(self.awake.is_set())
        with COUNTERS:
            lines = [
                f'vllm:request_success_total{{{labels},finished_reason="stop"}} {self.requests}',
                f"vllm:generation_tokens_total{{{labels}}} {self.tokens}",
                f"vllm:num_requests_running{{{labels}}} {0 if GAUGES_LIE else self.running}",
                f"vllm:num_requests_waiting{{{labels}}} 0",
                f"vllm:prompt_tokens_total{{{labels}}} {self.requests * PROMPT_TOKENS}",
                f'vllm:engine_sleep_state{{{labels},sleep_state="awake"}} {awake}',
            ]
            if self.draft_tokens:
                spec = "vllm:spec_decode_num"
                lines += [
                    f"{spec}_drafts_total{{{labels}}} {self.drafts}",
                    f"{spec}_draft_tokens_total{{{labels}}} {self.drafts * self.draft_tokens}",
                    f"{spec}_accepted_tokens_total{{{labels}}} {self.accepted}",
                ]
                lines += [
                    f'{spec}_accepted_tokens_per_pos_total{{{labels},position="{position}"}} '
                    f"{self.drafts if position < self.accepted_each else 0}"
                    for position in range(self.draft_tokens)
                ]
        return "\n".join(lines) + "\n"


def accepted_each(speculation: dict[str, Any] | None, draft_tokens: int) -> int:
    """Accepted tokens a draft: nearly all with the right config, none with the stale one."""
    if not speculation or not speculation.get("model"):
        return draft_tokens
    config = json.loads((Path(speculation["model"]) / "config.json").read_text("utf-8"))
    right = (config.get("dflash_config") or {}).get("mask_token_id") == MASK_TOKEN
    return draft_tokens if right else 0


def answer(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The document of a completion or a chat completion, after `stand_in_seconds`, or once there is
    the file `stand_in_until`. A stream waits `stand_in_pause` seconds after each event."""
    with COUNTERS:
        server.running += 1
    server.awake.wait()
    time.sleep(float(body.get("stand_in_seconds") or PACE.get(str(server.draft_tokens), 0)))
    while body.get("stand_in_until") and not Path(body["stand_in_until"]).exists():
        time.sleep(0.02)
    while Path(os.environ.get("STAND_IN_HANGS", "/nonexistent")).exists():
        time.sleep(0.02)
    with COUNTERS:
        server.running -= 1
    tokens = 1 if body.get("max_tokens") == 1 else TOKENS
    server.count(tokens)
    text = "It sorts." if os.environ.get("STAND_IN_FAULT") == "smoke" else ANSWER
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
    if path.endswith("/chat/completions"):
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    usage = {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": tokens,
        "total_tokens": PROMPT_TOKENS + tokens,
    }
    return {"id": "stand-in", "model": body.get("model"), "choices": [choice], "usage": usage}


def streamed(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """A chat completion as the events of a stream: each line of its text, the end, the usage."""
    (choice,) = whole["choices"]
    pieces = [{"delta": {"content": line}} for line in ANSWER.splitlines(keepends=True)]
    pieces.append({"delta": {}, "finish_reason": choice["finish_reason"]})
    return [
        *({"model": whole["model"], "choices": [piece]} for piece in pieces),
        {"model": whole["model"], "choices": [], "usage": whole["usage"]},
    ]


class Handler(BaseHTTPRequestHandler):
    """The endpoints that are used."""

    server_version = "stand-in"
    protocol_version = "HTTP/1.1"
    serving: Server
    guards: list[Any] = []  # noqa: RUF012
    """The middleware that was asked for."""
    ranks: list[socket.socket] = []  # noqa: RUF012
    """The connections to the other ranks, at rank 0."""

    def do_GET(self) -> None:
        if not self._let_in():
            return
        if self.path == "/is_sleeping" and DEV_MODE:
            self._say(200, json.dumps({"is_sleeping": not self.serving.awake.is_set()}))
            return
        models = [{"id": self.serving.name, "max_model_len": self.serving.length}]
        known: dict[str, str] = {
            "/health": "",
            "/version": json.dumps({"version": "0.0.stand-in"}),
            "/v1/models": json.dumps({"object": "list", "data": models}),
            "/metrics": self.serving.metrics(),
            "/load": json.dumps({"server_load": self.serving.load()}),
        }
        if self.path in known:
            self._say(200, known[self.path])
        else:
            self._say(404, "{}")

    def do_POST(self) -> None:
        if not self._let_in():
            return
        path = urlsplit(self.path).path
        if path in ("/sleep", "/wake_up") and DEV_MODE:
            self._turn(path)
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if not all(map(lives, self.ranks)):
            # As measured: what needs the lost rank ends the server; /health answered until then.
            print("ERROR [core.py:1] RuntimeError: EngineCore encountered an issue", flush=True)
            self._say(500, "{}")
            os._exit(1)
        if self.path == "/tokenize":
            self._say(200, json.dumps({"count": PROMPT_TOKENS}))
        elif body.get("stream"):
            events = [json.dumps(one) for one in streamed(answer(self.serving, self.path, body))]
            self._stream([*events, "[DONE]"], float(body.get("stand_in_pause") or 0))
        else:
            self._say(200, json.dumps(answer(self.serving, self.path, body)))

    def _let_in(self) -> bool:
        """Whether the middleware passes a request on; else it has answered."""
        passed: list[bool] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            passed.append(True)

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.send_response(message["status"])
                for name, value in message["headers"]:
                    self.send_header(name.decode(), value.decode())
                self.end_headers()
            else:
                self.wfile.write(message["body"])

        headers = [(k.lower().encode(), v.encode()) for k, v in self.headers.items()]
        scope = {"type": "http", "path": urlsplit(self.path).path, "headers": headers}
        asyncio.run(self.guards[0](app)(scope, None, send) if self.guards else app(0, 0, 0))
        return bool(passed)

    def _turn(self, path: str) -> None:
        """Sleep or wake, as the executor does: an error where the server was not started for it."""
        if not self.serving.can_sleep or path[1:].partition("_")[0] == FAULT:
            print("ERROR [core.py:1] RuntimeError: cumem allocator", flush=True)
            self._say(500, "{}")
        elif path == "/sleep":
            self.serving.awake.clear()
            self._say(200, "")
        else:
            self.serving.awake.set()
            self._say(200, "")

    def _stream(self, events: list[str], pause: float) -> None:
        """Event by event, `pause` seconds between them; a request in flight until its end."""
        with COUNTERS:
            self.serving.running += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            time.sleep(pause)
        self.wfile.write(b"0\r\n\r\n")
        with COUNTERS:
            self.serving.running -= 1

    def _say(self, status: int, text: str, kind: str = "application/json") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        say(f"{self.client_address[0]} - {format % args}")


def rendezvous(options: argparse.Namespace) -> list[socket.socket]:
    """Wait for the other ranks, for ever and without a word, as vLLM does; the connections to
    them. With STAND_IN_FAULT=`late N`, rank N never comes."""
    rank, count = options.node_rank, options.nnodes
    address = (options.master_addr, options.master_port)
    if os.environ.get("STAND_IN_FAULT") == f"late {rank}":
        threading.Event().wait()
    about = f"local_rank=0 distributed_init_method=tcp://{address[0]}:{address[1]} backend=gloo"
    say(f"world_size={count} rank={rank} {about}")
    joined: list[socket.socket] = []
    if os.environ.get("STAND_IN_FAULT") == "deaf":
        threading.Event().wait()
    if rank == 0:
        door = socket.create_server(address)
        joined = [door.accept()[0] for _ in range(count - 1)]
        for one in joined:
            one.sendall(b"!")
    while rank and not joined:
        try:
            joined = [socket.create_connection(address)]
            joined[0].recv(1)
        except OSError:
            joined = []
            time.sleep(0.05)
    say(f"rank {rank} in world size {count} is assigned as DP rank 0, PP rank 0, TP rank {rank}")
    return joined


class Listener(ThreadingHTTPServer):
    """Listens like uvicorn: a busy port is an error, not shared."""

    daemon_threads = True
    allow_reuse_address = True


def lives(rank: socket.socket) -> bool:
    """Whether the process at the other end is still there."""
    rank.setblocking(False)
    try:
        return bool(rank.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def say(text: str) -> None:
    """A line as vLLM logs it."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    print(f"INFO {stamp} [stand_in.py:1] {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    for name in ("host", "served-model-name", "max-model-len", "speculative-config"):
        parser.add_argument(f"--{name}")
    for name in ("port", "nnodes", "node-rank", "master-port"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--master-addr")
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--middleware", action="append", default=[])
    for name in ("enable-server-load-tracking", "enable-sleep-mode"):
        parser.add_argument(f"--{name}", action="store_true")
    options, _ = parser.parse_known_args()
    fault = os.environ.get("STAND_IN_FAULT")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if fault == "hang" else lambda *_: os._exit(0))
    say(f"vLLM API server version stand-in, model {options.model}")
    for name in os.environ.get("STAND_IN_TELLS", "").split():
        say(f"{name}={os.environ.get(name)}")
    time.sleep(float(os.environ.get("STAND_IN_START", "0.2")))
    if fault == "start" or fault == f"start {options.node_rank}":
        print("ERROR [core.py:1] ValueError: the stand-in was told to fail", flush=True)
        return 1
    if options.nnodes:
        Handler.ranks = rendezvous(options)
    if options.headless:
        threading.Event().wait()
    Handler.serving = Server(options)
    for name in options.middleware:
        module, _, attribute = name.rpartition(".")
        Handler.guards.append(getattr(importlib.import_module(module), attribute))
    listener = Listener((options.host, options.port), Handler)
    say(f"Starting vLLM server on http://{options.host}:{options.port}")
    say("Application startup complete.")
    listener.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
