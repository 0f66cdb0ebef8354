"""How long nobody is answered while the demo switches: plain and warm starts in turn.

    python bench/warm.py --rounds 5 --root DIRECTORY [--port 8123]

An outside client asks the server for one token every 0.1 s; the gap is its longest wait between two
answers. The demo is deployed first where it is not. Last comes JSON with the medians and their
ratio; the status is 0 where that is at most AT_MOST and every start was as it was meant.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any

AT_MOST = 0.7
PAUSE = 0.1
RELEASES = {"plain": 7, "warm": 8}
"""The `max-num-seqs` of the two releases between which is switched."""


class Client(threading.Thread):
    """Asks for one token again and again; `longest` is the longest time without an answer. Once an
    outage is over it asks no more: the acceptance gate counts other traffic as its own."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.url = f"http://127.0.0.1:{port}/v1/completions"
        self.over = threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        body = json.dumps({"model": "tiny", "prompt": "1", "max_tokens": 1}).encode()
        last, failed = time.monotonic(), 0
        while not self.over.wait(PAUSE):
            request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    answer.read()
            except OSError:
                failed += 1
                continue
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now
            if failed:
                return


def up(given: argparse.Namespace, kind: str) -> dict[str, Any]:
    """`deployctl up` of a kind's release; its report."""
    sets = {
        "hosts.0.root": given.root,
        "serve.port": given.port,
        "serve.args.max-num-seqs": RELEASES[kind],
        "switch.warm": "true" if kind == "warm" else "false",
        "acceptance.max_prompts": 3,
        "build.compile_bytecode": "false",
    }
    argv = [sys.executable, "-m", "deployctl", "up", "--profile", "demo", "--json", "--quiet"]
    for key, value in sets.items():
        argv += ["--set", f"{key}={value}"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"up ended with {done.returncode}: {done.stdout}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def switched(given: argparse.Namespace, kind: str) -> dict[str, Any]:
    """One switch: what the client saw, what the report says, and how the server was started."""
    client = Client(given.port)
    client.start()
    (host,) = up(given, kind)["hosts"]
    time.sleep(1)
    client.over.set()
    client.join()
    launch = next(step for step in host["steps"] if step["step"] == "launch")["evidence"]
    return {
        "kind": kind,
        "gap": round(client.longest, 2),
        "reported": host["without_service"],
        "warm": bool(launch["warm"]),
        "imports": (launch["warm"] or {}).get("seconds"),
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for kind in reversed(RELEASES):
        up(given, kind)
    up(given, "warm")
    found = []
    for _ in range(given.rounds):
        for kind in RELEASES:
            found.append(switched(given, kind))
            print(json.dumps(found[-1]), flush=True)
    medians = {
        kind: statistics.median(one["gap"] for one in found if one["kind"] == kind)
        for kind in RELEASES
    }
    ratio = round(medians["warm"] / medians["plain"], 3)
    meant = all(one["warm"] == (one["kind"] == "warm") for one in found)
    print(json.dumps({"rounds": given.rounds, **medians, "ratio": ratio, "as_meant": meant}))
    return 0 if meant and ratio <= AT_MOST else 1


if __name__ == "__main__":
    sys.exit(main())
