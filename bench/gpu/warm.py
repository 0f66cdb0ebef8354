"""Warm starts on a GPU: how long nobody is answered, and whether they do what plain ones do.

    python bench/gpu/warm.py --profile bench/gpu/tiny-patched.yaml --rounds 1 --starts 20
    python bench/gpu/warm.py --profile … --rounds 0 --starts 100 --lanes 4 \
        --set serve.gpu_memory_utilization=0.2 --set serve.args.kv-cache-memory-bytes=4G

Runs on the GPU host itself (`hosts: [local]`), where the profile is deployed, or is deployed first.

- gaps: `up` with another release, plain and warm in turn, while a client asks for a completion
  every 0.1 s: its longest wait between two answers, and what the report says.
- starts: as many servers one after the other, each by a process that imported all and waited, while
  the next ones are warmed; in as many lanes at once as are asked for, each with a port of its own
  (vLLM's memory profiling refuses neighbours that free memory, a fixed cache skips it). Each
  answers the same prompts as the plain server did, in the same words, and with as many accepted
  tokens; one that takes longer than LIMIT seconds hangs.
  With `--state FILE` what was started is kept, and the next call goes on from there, without
  deploying again; `--budget SECONDS` ends a call before its time limit, with status 3.
- graphs: with `--graphs`, two releases with CUDA graphs, and what their logs say of compiling.

The last line is JSON; the status is 0 where every run and every start was as expected.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from deployctl.vllm.serving import warm_launcher

LIMIT = 120.0
AHEAD = 2
"""Processes that are warmed beside the one that starts."""
PROMPTS = (
    "Write a Python quicksort function.",
    "Write a function that counts words.",
    "Explain binary search.",
)
COMPILED = re.compile(r"torch\.compile|compiled graph|[Cc]ompil\w+ .*(took|takes|cache)")
COMPILES = "Compiling a graph"
"""In a server's log, once for each graph that was not in the cache."""
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


class Client(threading.Thread):
    """Asks for one token every 0.1 s; `longest` is the longest time between two completions. Once
    an outage is over it asks no more: the acceptance gate counts other traffic as its own."""

    def __init__(self, port: int, model: str) -> None:
        super().__init__(daemon=True)
        self.url = f"http://127.0.0.1:{port}/v1/completions"
        self.body = {"model": model, "prompt": "1", "max_tokens": 1}
        self.over = threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        last, failed = time.monotonic(), 0
        while not self.over.wait(0.1):
            if not get(self.url, self.body, timeout=30):
                failed += 1
                continue
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now
            if failed:
                return


def up(profile: str, *sets: str) -> tuple[int, dict[str, Any], float]:
    """`deployctl up` with few prompts in its gates: exit code, report and seconds."""
    words = [word for one in ("acceptance.max_prompts=8", *sets) for word in ("--set", one)]
    argv = [sys.executable, "-m", "deployctl", "up", "-p", profile, "--json", "--quiet", *words]
    began = time.monotonic()
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    return done.returncode, json.loads(done.stdout), round(time.monotonic() - began, 1)


def evidence(report: dict[str, Any], step: str) -> dict[str, Any]:
    """What a step measured on the first host."""
    steps = report["hosts"][0]["steps"]
    found: dict[str, Any] = next(one for one in steps if one["step"] == step)["evidence"]
    return found


def gaps(given: argparse.Namespace) -> dict[str, Any]:
    """Another release each time, plain and warm in turn."""
    found: dict[str, list[dict[str, Any]]] = {"plain": [], "warm": []}
    length = given.max_model_len
    for _ in range(given.rounds):
        for kind in found:
            length -= 16
            warm = "auto" if kind == "warm" else "false"
            client = Client(given.port, given.model)
            client.start()
            code, report, seconds = up(
                given.profile,
                *given.set,
                f"serve.max_model_len={length}",
                f"switch.warm={warm}",
            )
            time.sleep(1)
            client.over.set()
            client.join()
            launch = evidence(report, "launch") if code == 0 else {}
            found[kind].append(
                {
                    "exit": code,
                    "error": report["hosts"][0]["error"],
                    "gap": round(client.longest, 2),
                    "without_service": report["hosts"][0]["without_service"],
                    "seconds": seconds,
                    "warm": launch.get("warm"),
                    "plain": launch.get("plain"),
                    "steps": {s["step"]: s["seconds"] for s in report["hosts"][0]["steps"]},
                }
            )
            print(json.dumps({kind: found[kind][-1]}), flush=True)
    good = all(one["exit"] == 0 for runs in found.values() for one in runs)
    return {**found, "good": good and all(one["warm"] for one in found["warm"])}


@dataclass
class Waiting:
    """A process that has imported all, and waits for the word."""

    process: subprocess.Popen[str]
    reports: IO[str]
    told: dict[str, Any]
    seconds: float


def begin(argv: list[str], env: dict[str, str], log: Path) -> Waiting:
    """Start one, and wait until it waits."""
    began = time.monotonic()
    read, write = os.pipe()
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(Path(argv[0]).with_name("python")), warm_launcher.__file__, "wait", str(write)],
            env={**inherited, **env},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            start_new_session=True,
            text=True,
        )
    os.close(write)
    assert process.stdin is not None
    process.stdin.write(json.dumps(argv) + "\n")
    process.stdin.flush()
    reports = os.fdopen(read)
    told = json.loads(reports.readline() or '{"missing": "it ended"}')
    return Waiting(process, reports, told, round(time.monotonic() - began, 2))


def get(url: str, body: dict[str, Any] | None = None, timeout: float = 60) -> str:
    """What a URL answers; empty where it does not."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text: str = answer.read().decode()
            return text or "ok"
    except (OSError, HTTPException):
        return ""


def answers(url: str, model: str) -> dict[str, Any]:
    """What a server says to the prompts, and the tokens that it accepted for it."""
    before = accepted(url)
    texts = []
    for prompt in PROMPTS:
        body = {"model": model, "prompt": prompt, "max_tokens": 100}
        body |= {"temperature": 0, "ignore_eos": True}
        answer = json.loads(get(f"{url}/v1/completions", body) or '{"choices": [{"text": null}]}')
        texts.append(answer["choices"][0]["text"])
    return {"texts": texts, "accepted": accepted(url) - before}


def accepted(url: str) -> float:
    """Draft tokens that a server has accepted so far."""
    lines = [line for line in get(f"{url}/metrics").splitlines() if line.startswith(ACCEPTED)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def serve(waiting: Waiting, url: str, model: str) -> dict[str, Any]:
    """Say the word; how long the first answer takes, and the answers."""
    process = waiting.process
    assert process.stdin is not None
    began = time.monotonic()
    process.stdin.write("serve\n")
    process.stdin.flush()
    told = {**waiting.told, **json.loads(waiting.reports.readline() or "{}")}
    found: dict[str, Any] = {
        "warmed_in": waiting.seconds,
        **{name: told.get(name) for name in ("method", "reason", "cuda", "devices", "threads")},
        "missing": told.get("missing"),
    }
    while time.monotonic() - began < LIMIT and process.poll() is None:
        if get(f"{url}/health", timeout=2):
            found["health"] = round(time.monotonic() - began, 2)
            found |= answers(url, model)
            found["answered"] = round(time.monotonic() - began, 2)
            break
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        found["killed"] = True
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return found


@dataclass
class Plain:
    """The server that was deployed first: how it is started, and what it answers."""

    argv: list[str]
    env: dict[str, str]
    answers: dict[str, Any]

    @classmethod
    def of(cls, report: dict[str, Any], url: str, model: str) -> Plain:
        launch = evidence(report, "launch")
        home = Path(launch["log"]).parents[1] / "releases" / report["hosts"][0]["release"]
        env = json.loads((home / "launch.json").read_text())["env"]
        return cls(launch["argv"], env, answers(url, model))


def lane(given: argparse.Namespace, plain: Plain, number: int) -> list[dict[str, Any]]:
    """Every `lanes`-th of the starts, on a port of its own."""
    port = given.port + number
    argv = [str(port) if word == str(given.port) else word for word in plain.argv]
    url = f"http://127.0.0.1:{port}"
    begun = given.starts - given.left
    numbers = range(begun + number, given.starts, given.lanes)
    logs = [Path(given.logs) / f"{one}.log" for one in numbers]
    found = []
    with ThreadPoolExecutor(AHEAD) as pool:
        coming = [pool.submit(begin, argv, plain.env, log) for log in logs[:AHEAD]]
        for at, log in enumerate([*logs[AHEAD:], *[None] * min(AHEAD, len(logs))]):
            waiting = coming.pop(0).result()
            if time.monotonic() > given.deadline:
                # What waits ends with its standard input.
                for unused in (waiting, *(late.result() for late in coming)):
                    unused.process.communicate()
                break
            if log is not None:
                coming.append(pool.submit(begin, argv, plain.env, log))
            one = serve(waiting, url, given.model)
            one["same"] = {name: one.pop(name, None) for name in plain.answers} == plain.answers
            one["compiled"] = logs[at].read_text("utf-8", "replace").count(COMPILES)
            found.append(one)
            print(json.dumps(one), flush=True)
    return found


def starts(given: argparse.Namespace, plain: Plain) -> dict[str, Any]:
    """Warm starts, compared with what the plain server answered."""
    down = [sys.executable, "-m", "deployctl", "down", "-p", given.profile]
    subprocess.run(down, check=True, stdout=sys.stderr)
    Path(given.logs).mkdir(parents=True, exist_ok=True)
    before = kept(given.state).get("starts", [])
    given.left = given.starts - len(before)
    with ThreadPoolExecutor(given.lanes) as pool:
        lanes = pool.map(lambda number: lane(given, plain, number), range(given.lanes))
        found = [*before, *(one for ended in lanes for one in ended)]
    keep(given.state, plain=vars(plain), starts=found)
    good = len(found) == given.starts and all(one["same"] and "health" in one for one in found)
    return {
        "starts": len(found),
        "methods": sorted({str(one["method"]) for one in found}),
        "health": sorted(one.get("health", LIMIT) for one in found),
        "different": sum(not one["same"] for one in found),
        "compiled": sum(one.get("compiled", 0) for one in found),
        "hung": sum("health" not in one for one in found),
        "left": given.starts - len(found),
        "plain": plain.answers,
        "good": good,
    }


def kept(path: str) -> dict[str, Any]:
    """What earlier calls have kept; nothing where there were none."""
    file = Path(path) if path else None
    found: dict[str, Any] = {}
    if file is not None and file.exists():
        found = json.loads(file.read_text())
    return found


def keep(path: str, **what: Any) -> None:
    """Keep it for the next call."""
    if path:
        Path(path).write_text(json.dumps(what))


def graphs(given: argparse.Namespace) -> dict[str, Any]:
    """Two releases that compile to the same code: the second finds it."""
    found = []
    for length in (64, 65):
        code, report, seconds = up(
            given.profile,
            *given.set,
            "serve.args.enforce-eager=false",
            f"serve.args.max-log-len={length}",
        )
        log = Path(evidence(report, "launch")["log"]).read_text("utf-8") if code == 0 else ""
        lines = [line[-160:] for line in log.splitlines() if COMPILED.search(line)]
        host = report["hosts"][0]
        found.append(
            {
                "exit": code,
                "error": host["error"],
                "without_service": host["without_service"],
                "seconds": seconds,
                "lines": lines,
            }
        )
    return {"runs": found, "good": all(one["exit"] == 0 for one in found)}


def main() -> int:
    """Deploy, then each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--logs", default="/tmp/warm-logs")
    parser.add_argument("--state", default="", help="file in which starts are counted over calls")
    parser.add_argument("--budget", type=float, default=86400.0, help="seconds of this call")
    given = parser.parse_args()
    given.deadline = time.monotonic() + given.budget
    earlier = kept(given.state).get("plain")
    if earlier:
        found = {"starts": starts(given, Plain(**earlier))}
        print(json.dumps(found))
        return ended(found)
    code, report, _ = up(given.profile, *given.set, "switch.warm=false")
    if code != 0:
        print(json.dumps(report["hosts"][0]["error"]))
        return code
    url = f"http://127.0.0.1:{given.port}"
    plain = Plain.of(report, url, given.model)
    found = {"gaps": gaps(given)}
    if given.graphs:
        found["graphs"] = graphs(given)
    if given.starts:
        found["starts"] = starts(given, plain)
    print(json.dumps(found))
    return ended(found)


def ended(found: dict[str, dict[str, Any]]) -> int:
    """The status: 3 where there are starts left for another call."""
    if found.get("starts", {}).get("left"):
        return 3
    return 0 if all(one["good"] for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
