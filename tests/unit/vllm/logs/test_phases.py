"""Phases of a start, from the logs of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.vllm.logs.phases import Startup

LOGS = Path(__file__).parents[3] / "cases" / "vllm_cpu"
SERVED = [
    "configuring",
    "starting the engine",
    "loading weights",
    "sizing the cache",
    "starting the server",
    "serving",
]


@pytest.mark.parametrize("log", ["plain", "ngram", "draftmodel", "eagle3", "dflash"])
def test_a_start_goes_through_its_phases_in_order(log: str) -> None:
    startup = Startup()
    lines = (LOGS / f"log-0.32.0-{log}.txt").read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        startup.feed(line + "\n", float(number))
    assert list(startup.reached) == SERVED
    assert startup.phase == "serving"
    seconds = startup.seconds(float(len(lines)))
    assert list(seconds) == ["starting", *SERVED]
    assert sum(seconds.values()) == pytest.approx(len(lines))


def test_a_start_that_fails_stops_in_its_phase() -> None:
    startup = Startup()
    startup.feed((LOGS / "log-0.20.1-ngram-UNPATCHED-fails.txt").read_text(encoding="utf-8"), 9.0)
    assert startup.phase == "warming up"


def test_shards_and_graphs_are_counted() -> None:
    startup = Startup()
    startup.feed(
        "(Worker pid=9) Loading safetensors checkpoint shards:  47% Completed | 7/15 [x]", 1
    )
    assert (startup.phase, startup.detail) == ("loading weights", "7 of 15")
    startup.feed("INFO 06-19 23:05:09 [backends.py:426] Dynamo bytecode transform time: 7.51 s", 2)
    assert (startup.phase, startup.detail) == ("compiling", "")
    startup.feed("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  20%|## | 2/10 [x]\r", 3)
    assert (startup.phase, startup.detail) == ("capturing graphs", "2 of 10")


def test_switched_off_compilation_is_no_phase() -> None:
    startup = Startup()
    startup.feed(
        "(APIServer pid=3) WARNING 11-30 00:03:19 [vllm.py:1703] Enforce eager set, disabling "
        "torch.compile, CUDAGraphs, and JIT kernel warmup. Inductor compilation was disabled\n",
        1.0,
    )
    assert startup.reached == {}
