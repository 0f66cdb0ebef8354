"""Verdicts that need a GPU, each with what is expected of it.

    python verdicts.py --profile tiny-patched.yaml --release-change serve.max_model_len=1024

Runs on the GPU host itself (`hosts: [local]`), where the profile is deployed, or is deployed first.

- rehearsal: another release is rehearsed beside what serves. The GPU's memory in use, read every
  0.1 s, grows by at most SLACK MiB.
- acceptance: the whole prompt set is asked once; measurements in other orders, which may stop
  early, have intervals that hold the whole set's mean acceptance length, but for MISSES of them: at
  95 %, more of ten miss by chance once in a hundred such runs.
- bench: two runs at the same levels settle, and agree within 10 % at each.
- hung: with the engine core stopped, /health answers 200, `status` says within half a minute that
  the server does not generate and is not healthy, and does not exit with 0; afterwards it does.

The last line is JSON; the status is 0 where all is as expected.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

SLACK = 16
"""MiB by which an idle server's own use may move."""
SEEDS = range(1, 11)
MISSES = 2
LEVELS = "1,4,16"
AGREE = 0.1
ENGINE = "VLLM::EngineCor"


def deployctl(*argv: str) -> tuple[int, dict[str, Any], float]:
    """A command's exit code, its document and its seconds."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "deployctl", *argv, "--json"], stdout=subprocess.PIPE, text=True
    )
    return done.returncode, json.loads(done.stdout), round(time.monotonic() - began, 1)


def evidence(report: dict[str, Any], step: str) -> dict[str, Any]:
    """What a step measured on the first host."""
    steps = report["hosts"][0]["steps"]
    found: dict[str, Any] = next(one for one in steps if one["step"] == step)["evidence"]
    return found


class Memory(threading.Thread):
    """The GPU's memory in use in MiB, every 0.1 s."""

    def __init__(self, gpu: int) -> None:
        super().__init__(daemon=True)
        query = ("--query-gpu=memory.used", "--format=csv,noheader,nounits")
        self.command = ["nvidia-smi", f"--id={gpu}", *query]
        self.over = threading.Event()
        self.values: list[int] = []

    def run(self) -> None:
        while True:
            self.values.append(int(subprocess.check_output(self.command, text=True)))
            if self.over.wait(0.1):
                return


def rehearsal(given: argparse.Namespace) -> dict[str, Any]:
    """Another release's rehearsal, and the GPU meanwhile."""
    memory = Memory(given.gpu)
    memory.start()
    time.sleep(2)
    before = max(memory.values)
    code, report, seconds = deployctl(
        "rehearse", "-p", given.profile, "--quiet", "--set", given.release_change
    )
    memory.over.set()
    memory.join()
    found = evidence(report, "rehearse")
    grown = max(memory.values) - before
    return {
        "exit": code,
        "outcome": found.get("outcome"),
        "cuda": found.get("cuda"),
        "devices": found.get("devices"),
        "before_mib": before,
        "grown_mib": grown,
        "looks": len(memory.values),
        "seconds": seconds,
        "good": code == 0 and found.get("outcome") == "accepted" and grown <= SLACK,
    }


def acceptance(given: argparse.Namespace) -> dict[str, Any]:
    """The whole set's value, and the intervals of measurements in other orders."""

    def measured(seed: int, *more: str) -> dict[str, Any]:
        sets = (f"acceptance.seed={seed}", "acceptance.max_prompts=1000", *more)
        words = [word for one in sets for word in ("--set", one)]
        report = deployctl("acceptance", "-p", given.profile, "--quiet", *words)[1]
        return evidence(report, "acceptance")

    # No look decides before so many drafts.
    whole = measured(0, "acceptance.min_drafts=1000000000")
    value = whole["mean_acceptance_length"]
    others = [measured(seed) for seed in SEEDS]
    spans = [(one["requests"], one["interval"]["low"], one["interval"]["high"]) for one in others]
    return {
        "whole": value,
        "requests": whole["requests"],
        "intervals": spans,
        "good": sum(not low <= value <= high for _, low, high in spans) <= MISSES,
    }


def bench(given: argparse.Namespace) -> dict[str, Any]:
    """Two benches, one after the other."""
    runs = []
    for _ in range(2):
        report = deployctl("bench", "-p", given.profile, "--quiet", "--concurrency", LEVELS)[1]
        runs.append(evidence(report, "bench")["levels"])
    speeds = [[level["tokens_per_second"] for level in levels] for levels in runs]
    settled = all(level["settled"] for levels in runs for level in levels)
    close = all(abs(a - b) <= AGREE * max(a, b) for a, b in zip(*speeds, strict=True))
    return {"speeds": speeds, "settled": settled, "good": settled and close}


def engine_of(pid: int) -> int:
    """The engine core among a server's children."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, after = (process / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if name.partition("(")[2] == ENGINE and int(after.split()[1]) == pid:
            return int(process.name)
    raise SystemExit(f"no {ENGINE} below pid {pid}")


def hung(given: argparse.Namespace) -> dict[str, Any]:
    """A stopped engine, and what `status` makes of it."""
    served = deployctl("status", "-p", given.profile)[1]["hosts"][0]
    engine = engine_of(served["pid"])
    os.kill(engine, signal.SIGSTOP)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{given.port}/health", timeout=30) as answer:
            health = answer.status
        code, document, seconds = deployctl("status", "-p", given.profile)
    finally:
        os.kill(engine, signal.SIGCONT)
    host = document["hosts"][0]
    again = deployctl("status", "-p", given.profile)[0]
    seen = (host["generates"], host["healthy"]) == (False, False)
    return {
        "health": health,
        "exit": code,
        "why": host["generates_why"],
        "in_flight": host["in_flight"],
        "seconds": seconds,
        "afterwards": again,
        "good": health == 200 and seen and code != 0 and again == 0 and seconds < 30,
    }


def main() -> int:
    """Deploy, then each of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", required=True)
    parser.add_argument("--release-change", default="serve.max_model_len=1024")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--only", nargs="*", help="some of them, by name")
    given = parser.parse_args()
    code = deployctl("up", "-p", given.profile, "--quiet")[0]
    if code != 0:
        return code
    every = {one.__name__: one for one in (rehearsal, acceptance, bench, hung)}
    found = {name: every[name](given) for name in given.only or every}
    print(json.dumps(found))
    return 0 if all(one["good"] for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
