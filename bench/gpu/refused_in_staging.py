"""Starts that must fail are refused beside what serves: exit 6 and no interruption.

    python refused_in_staging.py --profile tiny-patched.yaml --torch /srv/base/bin/python

Runs on the GPU host itself (`hosts: [local]`), where the profile is deployed, or is deployed first.
Tried are a share of memory that a spared holder makes impossible, and an attention backend that the
built version cannot use with DFlash. All the while a client asks for a completion every 0.1 s. The
last line is JSON; the status is 0 where both were refused with exit 6 and nothing was interrupted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any

HELD_MIB = 128
"""Held beside what CUDA itself takes of the holder's, some 500 MiB: below clean.free_below_mib."""
HOLD = """
import sys, time, torch
held = torch.empty({mib} << 20, dtype=torch.uint8, device="cuda:{gpu}")
torch.cuda.synchronize()
print("held", flush=True)
time.sleep(3600)
"""
CASES = {
    "utilization": ("serve.gpu_memory_utilization=0.999", "stay held by"),
    "backend": ("serve.attention_backend=FLASHINFER", "cannot do DFlash's non-causal attention"),
}
PAUSE = 0.1


class Client(threading.Thread):
    """Asks for one token every 0.1 s; `longest` is the longest time between two completions."""

    def __init__(self, port: int, model: str) -> None:
        super().__init__(daemon=True)
        self.url = f"http://127.0.0.1:{port}/v1/completions"
        self.body = json.dumps({"model": model, "prompt": "1", "max_tokens": 1}).encode()
        self.over = threading.Event()
        self.answered = self.failed = 0
        self.longest = 0.0

    def run(self) -> None:
        last = time.monotonic()
        while not self.over.wait(PAUSE):
            try:
                request = urllib.request.Request(
                    self.url, self.body, {"Content-Type": "application/json"}
                )
                with urllib.request.urlopen(request, timeout=30) as answer:
                    answer.read()
            except OSError:
                self.failed += 1
                continue
            now = time.monotonic()
            self.answered += 1
            self.longest, last = max(self.longest, now - last), now


def up(profile: str, *sets: str) -> tuple[int, dict[str, Any]]:
    """`deployctl up`; its exit code and its report."""
    argv = [sys.executable, "-m", "deployctl", "up", "-p", profile, "--json", "--quiet"]
    done = subprocess.run(
        [*argv, *(word for one in sets for word in ("--set", one))],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def tried(profile: str, change: str, words: str, port: int, model: str) -> dict[str, Any]:
    """One wish that must fail, with a client that asks while it does."""
    client = Client(port, model)
    client.start()
    began = time.monotonic()
    code, report = up(profile, change)
    seconds = time.monotonic() - began
    client.over.set()
    client.join()
    host = report["hosts"][0]
    error = host["error"] or {}
    said = f"{error.get('what')}\n{error.get('why')}"
    return {
        "exit": code,
        "refused": words in said,
        "what": error.get("what"),
        "why": error.get("why"),
        "without_service": host["without_service"],
        "seconds": round(seconds, 1),
        "answered": client.answered,
        "failed": client.failed,
        "longest_pause": round(client.longest, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument(
        "--torch", required=True, help="a Python with torch that no release uses, to hold memory"
    )
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--model", default="tiny")
    given = parser.parse_args()
    code, first = up(given.profile)
    print(f"deployed: exit {code}, release {first['hosts'][0]['release']}", flush=True)
    if code != 0:
        return code
    program = HOLD.format(mib=HELD_MIB, gpu=given.gpu)
    with subprocess.Popen(
        [given.torch, "-c", program], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            if holder.stdout.readline().strip() != "held":
                return 1
            found = {
                name: tried(given.profile, change, words, given.port, given.model)
                for name, (change, words) in CASES.items()
            }
        finally:
            holder.kill()
    print(json.dumps(found, indent=1))
    good = all(
        one["exit"] == 6 and one["refused"] and one["without_service"] is None and not one["failed"]
        for one in found.values()
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
