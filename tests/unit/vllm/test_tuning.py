"""The choice of a number of draft tokens: speeds, leads, early stops, and what is proposed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deployctl.config.loader import load_profile
from deployctl.steps.measuring import tuned
from deployctl.steps.measuring.tuning import Tuning, with_tokens
from deployctl.vllm.tuning import choice, race, speeds
from deployctl.vllm.tuning.choice import Candidate, Level
from deployctl.vllm.tuning.speeds import Sample, Series

ROUNDS = 24


def series(
    rate: float, seed: int, count: int = ROUNDS, slow: Sequence[float] = (), beside: float = 0
) -> Series:
    """Answers at about `rate` tokens per second. Lengths are the prompts' own; `seed` is the
    noise's. `slow` is how much slower the machine is in each round, for the reference as well,
    which runs at `beside`."""
    lengths, draw = random.Random(1), random.Random(seed)
    own, reference = [], []
    for number in range(count):
        tokens = lengths.randint(50, 400)
        now = slow[number] if slow else 1.0
        own.append(Sample(tokens, now * tokens / rate * draw.uniform(0.9, 1.1)))
        if beside:
            reference.append(Sample(tokens, now * tokens / beside * draw.uniform(0.9, 1.1)))
    return Series(own, reference)


def test_a_speed_is_tokens_over_seconds_times_what_is_in_flight() -> None:
    samples = [Sample(100, 2.0), Sample(300, 2.0)]
    assert speeds.speed(samples, 1) == 100.0
    assert speeds.speed(samples, 4) == 400.0
    found = speeds.speed_interval(samples, 1, 0.95)
    assert found is not None and 50 <= found.low < 100 < found.high <= 150


def test_a_lead_is_of_the_rounds_that_both_have() -> None:
    ours = Series([Sample(100, 1.0), Sample(100, 1.0)])
    theirs = Series([Sample(100, 2.0), Sample(100, 2.0), Sample(100, 9.0)])
    assert speeds.lead(ours, theirs) == 1.0
    assert speeds.lead_interval(Series(ours.own[:1]), theirs, 0.95) is None


def test_a_machine_that_slows_down_changes_no_lead() -> None:
    """Asked while the machine was four times as slow, the faster one is found all the same."""
    draw = random.Random(5)
    slow = [draw.uniform(3, 5) for _ in range(ROUNDS)]
    faster, slower = series(130, 1, slow=slow, beside=100), series(110, 2, beside=100)
    assert speeds.rate(faster.own) < speeds.rate(slower.own)
    found = speeds.lead_interval(faster, slower, 0.98)
    assert found is not None and 0 < found.low < 130 / 110 - 1 < found.high


def test_who_is_as_fast_is_rarely_stopped_and_who_is_slower_is() -> None:
    stopped = [
        speeds.cannot_win(series(100, seed, 12), series(100, seed + 500), ROUNDS, 0.95)
        for seed in range(100)
    ]
    assert sum(stopped) <= 3
    slower = [
        speeds.cannot_win(series(80, seed, 12), series(100, seed + 500), ROUNDS, 0.95)
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
    early = Candidate(1, Series([Sample(100, 0.6)] * 12), stopped=True)
    found = choice.judged(Level(1, 7, [Candidate(7, Series(whole)), early]), 0.95)
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
    base, fast, slow = (Series([Sample(100, seconds)]) for seconds in (0.5, 0.1, 1.0))
    candidates = [Candidate(1, fast, stopped=True), Candidate(3, slow)]
    assert race.fastest(candidates, base) is base
    assert race.fastest([Candidate(1, fast)], base) is fast


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
        "chosen": [{"concurrency": 1, "value": 5}, {"concurrency": 4, "value": 7}],
        "propose": [],
    }
    text = "\n".join(tuned.lines(evidence))
    assert "16 draft tokens: not measured: the server did not start\n" in text
    assert "5 draft tokens for 1 at once, 7 draft tokens for 4 at once" in text
    said = tuned.sentence(evidence)
    assert "1 at once: 5 draft tokens is fastest, +" in said
    assert "4 at once: 7 draft tokens stays, +" in said
    one = {**evidence, "chosen": [{"concurrency": 1, "value": 5}], "propose": ["a.b=[[1, 2, 3]]"]}
    assert "deployctl up -p mine --set 'a.b=[[1, 2, 3]]'" in "\n".join(tuned.lines(one))


def test_an_interrupted_measurement_has_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    known = SimpleNamespace(knows_key=lambda key: False)
    place = "deployctl.steps.measuring.tuning.built.knowledge"
    monkeypatch.setattr(place, lambda context: known)
    context: Any = SimpleNamespace(
        release=SimpleNamespace(release="r1"),
        wanted=SimpleNamespace(profile=SimpleNamespace(name="demo")),
    )
    one = Tuning(cast(Any, None), context, (7, 3, 1), (1, 4), ROUNDS, 0.95, beside=True)
    one.candidates = {1: [], 4: []}
    one.under_way = {1: Candidate(3, series(200, 2, beside=100))}
    found = one.so_far()
    assert [level["concurrency"] for level in found["levels"]] == [1]
    assert [each["value"] for each in found["levels"][0]["candidates"]] == [3, 7]
    assert found["propose"] == [] and not found["complete"]
    assert tuned.sentence(found).startswith("so far: 1 at once: 3 draft tokens is fastest")
    *_, last = tuned.lines(found)
    assert last == "nothing was changed; interrupted before 1 draft token"


def test_the_starts_are_counted_before_the_first() -> None:
    beside = Tuning(cast(Any, None), cast(Any, None), (7, 3, 1), (1,), ROUNDS, 0.95, beside=True)
    assert beside._ahead() == "2 server starts beside what serves, with 3, 1 draft tokens"
    beside.beside = False
    words = "5 server starts: with 7, 3, 1, 7 draft tokens, then what served"
    assert beside._ahead() == words
