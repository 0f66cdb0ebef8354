"""From measured candidates to a choice at each concurrency, and to what to set. Pure.

A candidate is a number of draft tokens, 0 for no speculation; `current` is the serving one. Beside
what serves, each round of a candidate is compared with one of what serves, asked right before or
after. In its place the current value is measured first and once more at the end: what it differs
from itself (`drift`) comes from the machine, and a lead below that does not justify a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from deployctl.vllm.acceptance.interval import Interval
from deployctl.vllm.tuning import speeds
from deployctl.vllm.tuning.speeds import Series

TOKENS = "drafter.num_speculative_tokens"
SCHEDULE = "num_speculative_tokens_per_batch_size"
"""The key of vLLM's --speculative-config that gives draft tokens by the number of requests at
once: [first, last, tokens], the last range for all beyond it (vllm/v1/spec_decode/dynamic)."""

Verdict = Literal["change", "keep", "unclear"]


@dataclass(frozen=True)
class Candidate:
    """One candidate at one concurrency. `length` is its mean acceptance length where counted;
    `stopped` whether it could not win and was not measured to the end."""

    value: int
    series: Series
    length: float | None = None
    stopped: bool = False


@dataclass(frozen=True)
class Level:
    """What was measured at one concurrency, the current value among the candidates; `again` is its
    second measurement, None where there is none."""

    concurrency: int
    current: int
    candidates: Sequence[Candidate]
    again: Series | None = None


def judged(level: Level, confidence: float) -> dict[str, Any]:
    """A level as evidence: each candidate's speed with its interval, the fastest, what it gains
    over the current value and by how much it leads the next one, as shares with intervals. Of one
    that was stopped early the requests that it answered are compared; it cannot be the fastest.

    `change`: the fastest is faster than the current value for certain, and by more than the drift.
    `keep`: the current value is the fastest. `unclear`: another one was faster, and it may be
    chance.
    """
    series = {one.value: one.series for one in level.candidates}
    drift = None
    if level.again is not None:
        drift = speeds.lead(level.again, series[level.current])
        series[level.current] = speeds.together(series[level.current], level.again)
    base = series[level.current]
    ended = [one.value for one in level.candidates if not one.stopped]
    best = max(ended, key=lambda value: speeds.lead(series[value], base))
    each = speeds.shared(confidence, len(series) - 1)
    behind = {value: _lead(one, series[best], each) for value, one in series.items()}
    others = sorted((value for value in series if value != best), key=lambda v: -behind[v]["share"])
    gain = None if best == level.current else _lead(series[best], series[level.current], each)
    found = [_candidate(one, series[one.value], level, confidence) for one in _in(level)]
    return {
        "concurrency": level.concurrency,
        "candidates": [
            {**one, "behind": None if one["value"] == best else behind[one["value"]]}
            for one in found
        ],
        "best": best,
        "second": others[0] if others else None,
        "ahead": _lead(series[best], series[others[0]], each) if others else None,
        "gain": gain,
        "drift": drift,
        "verdict": _verdict(gain, drift),
    }


def chosen(judged_levels: Sequence[Mapping[str, Any]], current: int) -> dict[int, int]:
    """The value to use at each concurrency: the current one where no change is certain."""
    return {
        int(level["concurrency"]): int(level["best"]) if level["verdict"] == "change" else current
        for level in judged_levels
    }


def proposal(values: Mapping[int, int], current: int, scheduled: bool) -> list[str]:
    """What to `--set`, as KEY=VALUE; nothing where the current value is to stay, and nothing where
    the values differ and this vLLM has no schedule by the number of requests (`scheduled`)."""
    different = sorted({*values.values()})
    if different == [current]:
        return []
    if len(different) == 1:
        (value,) = different
        return [f"{TOKENS}={value}"] if value else ["drafter=null", "acceptance=null"]
    if not scheduled:
        return []
    most = max(different)
    ranges = str(_ranges(values))
    changed = [f"{TOKENS}={most}"] if most != current else []
    return [*changed, f"drafter.speculative.{SCHEDULE}={ranges}"]


def _ranges(values: Mapping[int, int]) -> list[list[int]]:
    """Ranges of requests at once. Between two concurrencies with different values nothing was
    measured: the border is put halfway."""
    found: list[list[int]] = []
    levels = sorted(values)
    for number, level in enumerate(levels):
        last = level if number + 1 == len(levels) else (level + levels[number + 1]) // 2
        if found and found[-1][2] == values[level]:
            found[-1][1] = last
        else:
            found.append([found[-1][1] + 1 if found else 1, last, values[level]])
    return found


def _in(level: Level) -> list[Candidate]:
    return sorted(level.candidates, key=lambda one: one.value)


def _candidate(one: Candidate, series: Series, level: Level, confidence: float) -> dict[str, Any]:
    return {
        "value": one.value,
        "tokens_per_second": speeds.speed(series.own, level.concurrency),
        "interval": _interval(speeds.speed_interval(series.own, level.concurrency, confidence)),
        "serving_tokens_per_second": speeds.speed(series.reference, level.concurrency)
        if series.reference
        else None,
        "rounds": len(one.series.own),
        "mean_acceptance_length": one.length,
        "stopped_early": one.stopped,
    }


def _lead(ours: Series, theirs: Series, confidence: float) -> dict[str, Any]:
    return {
        "share": speeds.lead(ours, theirs),
        "interval": _interval(speeds.lead_interval(ours, theirs, confidence)),
    }


def _interval(found: Interval | None) -> dict[str, float | int] | None:
    return None if found is None else asdict(found)


def _verdict(gain: Mapping[str, Any] | None, drift: float | None) -> Verdict:
    if gain is None:
        return "keep"
    found = gain["interval"]
    clear = found is not None and found["low"] > 0 and gain["share"] > abs(drift or 0.0)
    return "change" if clear else "unclear"
