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


ACCESS = 'INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 500 Internal Server Error\n'


def test_a_phase_and_a_bar_that_moves_are_progress_and_words_are_none() -> None:
    start = Startup()
    assert start.feed("INFO 01-01 [x.py:1] Starting to load model /m...\n", 1.0)
    assert not start.feed("INFO 01-01 [x.py:1] Starting to load model /m...\n", 2.0)
    assert not start.feed(ACCESS * 50, 3.0)
    assert not start.feed("WARNING: still waiting for something\n" * 50, 4.0)
    bar = "Loading safetensors checkpoint shards:  {}% Completed | {}/4 [00:01<00:02]\n"
    assert not start.feed(bar.format(0, 0), 5.0)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("Fetching 5 files:  20%|##        | 1/5 [00:01<00:04]", "Fetching 5 files:  40%|## | 2/5"),
        ("model.safetensors:  10%|# | 512M/5.0G [00:09<", "model.safetensors:  20%|# | 1.0G/5.0G"),
        ("[3/40] nvcc a.cu", "[4/40] nvcc b.cu"),
    ],
)
def test_a_bar_is_progress_only_while_it_moves_on(first: str, later: str) -> None:
    start = Startup()
    assert start.feed(first + "\n", 1.0)
    assert not start.feed(first + "\n", 2.0)
    assert start.feed(later + "\n", 3.0)
    assert not start.feed(first + "\n", 4.0)
