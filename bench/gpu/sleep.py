"""The strategy sleep on a GPU: how long a client waits in a switch, and in the way back.

    python bench/gpu/sleep.py --profile bench/gpu/tiny-sleep.yaml --rounds 2

Runs on the GPU host itself (`hosts: [local]`), without a network; the profile is deployed, or is
deployed first. A client of its own asks for one token every 0.1 s, by a connection of its own each
time, all the while:

- switch: `up` with another release: its longest wait from one answer to the next.
- back: `up` with another release whose smoke gate cannot pass: the same of the switch, and of the
  time after it, when what slept is woken.

Each run is a line of JSON, the last line all of it; the status is 0 where each ended as expected,
what serves after a failure is the very process that slept, and vLLM's control endpoints answer
nobody without the key.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

FAILS = "[{name: never, prompt: Count to ten., max_tokens: 8, check: {contains: [zq9]}}]"
LONG = 0.7
"""Seconds from one answer to the next that are no usual wait of a client."""
CONTROL = ("/is_sleeping", "/server_info", "/get_world_size")


class Client(threading.Thread):
    """Asks for one token every 0.1 s. `waits` are the times from one answer to the next. With
    `once` it asks no more after the first long one: the acceptance gate counts other traffic."""

    def __init__(self, port: int, model: str, once: bool) -> None:
        super().__init__(daemon=True)
        self.url = f"http://127.0.0.1:{port}/v1/completions"
        self.body = json.dumps({"model": model, "prompt": "1", "max_tokens": 1}).encode()
        self.once = once
        self.over = threading.Event()
        self.waits: list[float] = []
        self.refused = 0

    def run(self) -> None:
        last = time.monotonic()
        while not self.over.wait(0.1):
            if not self._answered():
                self.refused += 1
                continue
            now = time.monotonic()
            self.waits.append(now - last)
            last = now
            if self.once and self.waits[-1] > LONG:
                return

    def _answered(self) -> bool:
        request = urllib.request.Request(
            self.url, self.body, {"Content-Type": "application/json", "Connection": "close"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return bool(json.loads(answer.read())["choices"])
        except (OSError, HTTPException, ValueError, KeyError):
            return False

    def gaps(self) -> dict[str, float | None]:
        """The first long wait, and the longest of those after it."""
        at = next((i for i, wait in enumerate(self.waits) if wait > LONG), len(self.waits))
        first = round(self.waits[at], 2) if at < len(self.waits) else None
        after = self.waits[at + 1 :]
        return {"switch": first, "after": round(max(after), 2) if after else None}


def up(profile: str, *sets: str) -> tuple[int, dict[str, Any], float]:
    """`deployctl up` with few prompts in its gates: exit code, report and seconds."""
    words = [word for one in ("acceptance.max_prompts=8", *sets) for word in ("--set", one)]
    argv = [sys.executable, "-m", "deployctl", "up", "-p", profile, "--json", "--quiet", *words]
    began = time.monotonic()
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    report = json.loads(done.stdout) if done.stdout.strip() else {"hosts": [{}]}
    return done.returncode, report, round(time.monotonic() - began, 1)


def measured(given: argparse.Namespace, length: int, *sets: str, once: bool) -> dict[str, Any]:
    """One run beside a client."""
    client = Client(given.port, given.model, once)
    client.start()
    code, report, seconds = up(given.profile, f"serve.max_model_len={length}", *sets)
    time.sleep(1)
    client.over.set()
    client.join(130)
    host = report["hosts"][0]
    found = {
        "exit": code,
        "error": host.get("error"),
        "client": client.gaps(),
        "refused": client.refused,
        "reported": host.get("outages") or host.get("gaps") or host.get("without_service"),
        "seconds": seconds,
        "steps": {s["step"]: round(s["seconds"], 2) for s in host.get("steps", ())},
        "sleep": [s["evidence"] for s in host.get("steps", ()) if "slee" in s["step"]],
        "wake": [s["evidence"] for s in host.get("steps", ()) if s["step"].endswith("wake")],
        "warm": [s["evidence"].get("warm") for s in host.get("steps", ()) if s["step"] == "launch"],
        "memory": [
            {key: s["evidence"].get(key) for key in ("memory_before", "memory_after", "settled")}
            for s in host.get("steps", ())
            if s["step"] == "clean"
        ],
    }
    print(json.dumps(found), flush=True)
    return found


def serving(profile: str) -> Any:
    """The process that serves, by status."""
    argv = [sys.executable, "-m", "deployctl", "status", "-p", profile, "--json"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    host = json.loads(done.stdout)["hosts"][0]
    return host["unit"], host["pid"], host["healthy"]


def control(port: int) -> dict[str, int]:
    """What the served port answers to questions that need the key."""
    found = {}
    for path in CONTROL:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                found[path] = int(answer.status)
        except urllib.error.HTTPError as error:
            found[path] = error.code
        except OSError:
            found[path] = 0
    return found


def main() -> int:
    """Deploy, then each of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--warm", default="auto", help="switch.warm: auto, true or false")
    given = parser.parse_args()
    os.environ.setdefault("no_proxy", "127.0.0.1")
    code, report, seconds = up(given.profile, f"switch.warm={given.warm}")
    print(json.dumps({"first": code, "seconds": seconds}), flush=True)
    if code != 0:
        print(json.dumps(report["hosts"][0].get("error")))
        return code
    length, found = given.max_model_len, {"switch": [], "back": []}  # type: ignore[var-annotated]
    warm = f"switch.warm={given.warm}"
    good = True
    for _ in range(given.rounds):
        length -= 16
        switched = measured(given, length, warm, once=True)
        before = serving(given.profile)
        back = measured(given, length - 8, f"smoke.requests={FAILS}", warm, once=False)
        good = good and switched["exit"] == 0 and back["exit"] == 10
        back["same_process"] = serving(given.profile) == before and before[-1]
        good = good and bool(back["same_process"])
        found["switch"].append(switched)
        found["back"].append(back)
    refused = control(given.port)
    good = good and set(refused.values()) == {404}
    summary = {
        "switch": [one["client"]["switch"] for one in found["switch"]],
        "back": [one["client"]["after"] for one in found["back"]],
        "same_process": [one["same_process"] for one in found["back"]],
        "control": refused,
        "good": good,
    }
    print(json.dumps(summary))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
