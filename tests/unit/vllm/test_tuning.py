"""The choice of a number of draft tokens: speeds, leads, early stops, and what is proposed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from deployctl.config.loader import load_profile
from deployctl.steps.measuring import tuned
from deployctl.steps.measuring.tuning import with_tokens
from deployctl.vllm.tuning import choice, race, speeds
from deployctl.vllm.tuning.choice import Candidate, Level
from deployctl.vllm.tuning.speeds import Sample

REQUESTS = 32


def series(rate: float, seed: int, count: int = REQUESTS, noise: float = 0.1) -> list[Sample]:
    """Answers at about `rate` tokens per second. Lengths are the prompts' own; `seed` is the
    noise's."""
    lengths, draw = random.Random(1), random.Random(seed)
    found = []
    for _ in range(count):
        tokens = lengths.randint(50, 400)
        found.append(Sample(tokens, tokens / rate * (1 + draw.uniform(-noise, noise))))
    return found


def test_a_speed_is_tokens_over_seconds_times_what_is_in_flight() -> None:
    samples = [Sample(100, 2.0), Sample(300, 2.0), None]
    assert speeds.speed(samples, 1) == 100.0
    assert speeds.speed(samples, 4) == 400.0
    assert speeds.speed([None], 1) is None and speeds.speed([Sample(0, 1.0)], 1) is None
    found = speeds.speed_interval(samples, 1, 0.95)
    assert found is not None and 50 <= found.low < 100 < found.high <= 150


def test_a_lead_is_of_the_requests_that_both_answered() -> None:
    ours = [Sample(100, 1.0), None, Sample(100, 1.0)]
    theirs = [Sample(100, 2.0), Sample(100, 0.1), Sample(100, 2.0), Sample(100, 9.0)]
    assert speeds.lead(ours, theirs) == 1.0
    assert speeds.lead([None], theirs) is None
    assert speeds.lead_interval(ours[:1], theirs, 0.95) is None


@pytest.mark.parametrize("concurrency", [1, 4, 5, 16, 64])
def test_looks_are_whole_rounds(concurrency: int) -> None:
    found = speeds.looks(REQUESTS, concurrency)
    assert found[-1] == REQUESTS and found == sorted({*found})
    assert all(look % concurrency == 0 and look >= 12 for look in found[:-1])


def test_who_is_as_fast_is_rarely_stopped_and_who_is_slower_is() -> None:
    stopped = [
        speeds.cannot_win(series(100, seed, 12), series(100, seed + 500), REQUESTS, 0.95)
        for seed in range(100)
    ]
    assert sum(stopped) <= 3
    slower = [
        speeds.cannot_win(series(80, seed, 12), series(100, seed + 500), REQUESTS, 0.95)
        for seed in range(20)
    ]
    assert sum(slower) >= 19


def level(speed: dict[int, float], current: int, drift: float = 1.0, at: int = 1) -> dict[str, Any]:
    """A judged level of candidates with these speeds."""
    candidates = [
        Candidate(value, series(rate, seed), 1.0)
        for seed, (value, rate) in enumerate(speed.items())
    ]
    again = series(speed[current] * drift, 99)
    return choice.judged(Level(at, current, candidates, again), 0.95)


def test_the_fastest_is_proposed_with_its_gain() -> None:
    found = level({7: 100, 5: 130, 3: 110, 0: 40}, 7)
    assert (found["best"], found["second"], found["verdict"]) == (5, 3, "change")
    gain = found["gain"]
    assert gain["interval"]["low"] < 0.3 < gain["interval"]["high"] and gain["share"] > 0.2
    assert found["gain"]["interval"]["confidence"] == pytest.approx(1 - 0.05 / 3)
    assert [one["value"] for one in found["candidates"]] == [0, 3, 5, 7]
    assert next(one for one in found["candidates"] if one["value"] == 5)["behind"] is None


def test_a_lead_below_the_drift_is_no_reason() -> None:
    assert level({7: 100, 5: 130}, 7, drift=1.9)["verdict"] == "unclear"
    assert level({7: 100, 5: 100.5}, 7)["verdict"] in ("unclear", "keep")
    assert level({7: 100, 5: 80}, 7)["verdict"] == "keep"
    assert level({7: 100}, 7)["verdict"] == "keep"


def test_one_that_was_stopped_is_compared_on_what_it_answered() -> None:
    """The first requests may be the fast ones: its speed alone would make it the fastest."""
    whole = [Sample(100, 0.5)] * 12 + [Sample(100, 2.0)] * 20
    early = Candidate(1, [Sample(100, 0.6)] * 12, stopped=True)
    found = choice.judged(Level(1, 7, [Candidate(7, whole), early]), 0.95)
    assert found["best"] == 7 and found["drift"] is None
    assert next(one for one in found["candidates"] if one["value"] == 1)["behind"]["share"] < 0


@pytest.mark.parametrize(
    ("values", "scheduled", "sets"),
    [
        ({1: 7, 4: 7}, True, []),
        ({1: 5, 4: 5}, True, ["drafter.num_speculative_tokens=5"]),
        ({1: 0}, True, ["drafter=null", "acceptance=null"]),
        ({1: 9, 8: 3}, False, []),
        (
            {1: 9, 8: 3, 32: 0},
            True,
            [
                "drafter.num_speculative_tokens=9",
                "drafter.speculative.num_speculative_tokens_per_batch_size="
                "[[1, 4, 9], [5, 20, 3], [21, 32, 0]]",
            ],
        ),
        (
            {1: 7, 8: 7, 32: 0},
            True,
            ["drafter.speculative.num_speculative_tokens_per_batch_size=[[1, 20, 7], [21, 32, 0]]"],
        ),
    ],
)
def test_what_is_proposed_is_what_a_profile_takes(
    values: dict[int, int], scheduled: bool, sets: Sequence[str]
) -> None:
    assert choice.proposal(values, 7, scheduled) == sets
    load_profile("demo", sets=[*sets], environ={})


def test_the_current_value_stays_where_no_change_is_certain() -> None:
    levels = [
        {"concurrency": 1, "best": 5, "verdict": "change"},
        {"concurrency": 4, "best": 3, "verdict": "unclear"},
    ]
    assert choice.chosen(levels, 7) == {1: 5, 4: 7}


def test_the_leader_was_measured_to_the_end() -> None:
    fast = Candidate(1, [Sample(100, 0.1)], stopped=True)
    slow = Candidate(3, [Sample(100, 1.0)])
    assert race.fastest([fast, slow], 1) == slow.series
    assert race.fastest([fast], 1) is None


def test_the_command_line_with_another_number() -> None:
    config = (
        '{"method": "dflash", "num_speculative_tokens": 7, '
        '"num_speculative_tokens_per_batch_size": [[1, 4, 7]]}'
    )
    argv = ["vllm", "serve", "--speculative-config", config, "--port", "1"]
    assert with_tokens(argv, 7, True) == argv
    assert with_tokens(argv, 0, False) == ["vllm", "serve", "--port", "1"]
    assert with_tokens(argv, 3, False)[3] == '{"method": "dflash", "num_speculative_tokens": 3}'


def test_the_lines_name_the_winner_its_gain_and_what_to_set() -> None:
    levels = [level({7: 100, 5: 130, 0: 40}, 7), level({7: 100, 5: 90, 0: 40}, 7, at=4)]
    evidence = {
        "current": 7,
        "profile": "mine",
        "levels": levels,
        "failed": [{"value": 16, "why": "the server did not start\nmore"}],
        "other_tokens": 12,
        "chosen": [{"concurrency": 1, "value": 5}, {"concurrency": 4, "value": 7}],
        "propose": [],
    }
    text = "\n".join(tuned.lines(evidence))
    assert "16 draft tokens: not measured: the server did not start\n" in text
    assert "12 tokens for its clients" in text
    assert "5 draft tokens for 1 at once, 7 draft tokens for 4 at once" in text
    said = tuned.sentence(evidence)
    assert "1 at once: 5 draft tokens is fastest, +" in said
    assert "4 at once: 7 draft tokens stays, +" in said
    one = {**evidence, "chosen": [{"concurrency": 1, "value": 5}], "propose": ["a.b=[[1, 2, 3]]"]}
    assert "deployctl up -p mine --set 'a.b=[[1, 2, 3]]'" in "\n".join(tuned.lines(one))
