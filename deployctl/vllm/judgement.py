"""A verdict on a drafter from what was counted: pure, and with its uncertainty.

pass: every condition of the gate holds · fail: one is broken · undecided: the interval spans a
floor · no-data: nothing was drafted · too-few-drafts: less than the gate asks for · unknown: the
counts cannot be trusted, and the reason says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from deployctl.vllm.counts import (
    Counts,
    acceptance_rate,
    mean_acceptance_length,
    per_position_rates,
)
from deployctl.vllm.interval import Interval, length_interval

Verdict = Literal["pass", "fail", "undecided", "no-data", "too-few-drafts", "unknown"]


@dataclass(frozen=True)
class Gate:
    """What acceptance must reach; an absent floor is not checked.

    `last_good` is the mean acceptance length of the last good release on the same prompts, and
    `tolerance` how far below it is still accepted.
    """

    min_length: float | None = None
    min_rate: float | None = None
    min_per_position: tuple[float, ...] = ()
    min_drafts: int = 1
    confidence: float = 0.95
    tolerance: float | None = None
    last_good: float | None = None

    @property
    def length_floor(self) -> float | None:
        """The floor of the mean acceptance length: the higher of the two ways to set one."""
        floors = [] if self.min_length is None else [self.min_length]
        if self.tolerance is not None and self.last_good is not None:
            floors.append(max(1.0, self.last_good - self.tolerance))
        return max(floors, default=None)


@dataclass(frozen=True)
class Judgement:
    """The verdict, a sentence for each reason, and the interval that it rests on."""

    verdict: Verdict
    reasons: tuple[str, ...]
    interval: Interval | None = None


def judge(
    counts: Counts,
    samples: Sequence[Counts],
    gate: Gate,
    seed: int = 0,
    confidence: float | None = None,
    length: float | None = None,
) -> Judgement:
    """Judge pooled counts; `samples` are those of single requests, for the interval.

    `confidence` replaces the gate's (early looks ask for more). `length` is the mean acceptance
    length where a log gives it and not the drafts.
    """
    if length is None:
        length = mean_acceptance_length(counts)
    if counts.drafts == 0 or length is None:
        return Judgement("no-data", ("no traffic measured: nothing was drafted",))
    interval = length_interval(samples, confidence or gate.confidence, seed)
    if counts.drafts is not None and counts.drafts < gate.min_drafts:
        few = f"{counts.drafts} drafts are too few: the gate asks for {gate.min_drafts}"
        return Judgement("too-few-drafts", (few,), interval)
    broken = [*_length_reasons(length, interval, gate), *_rate_reasons(counts, gate)]
    failed = tuple(reason for verdict, reason in broken if verdict == "fail")
    if failed:
        return Judgement("fail", failed, interval)
    if broken:
        return Judgement("undecided", tuple(reason for _, reason in broken), interval)
    return Judgement("pass", (_passed(length, gate),), interval)


def _length_reasons(
    length: float, interval: Interval | None, gate: Gate
) -> list[tuple[Verdict, str]]:
    floor = gate.length_floor
    if floor is None:
        return []
    low, high = (interval.low, interval.high) if interval else (length, length)
    said = f"mean acceptance length {length:.2f}"
    if interval is not None:
        said += f" ({low:.2f} to {high:.2f} at {interval.confidence:.1%})"
    if high < floor:
        return [("fail", f"{said} is below the floor of {floor:g}")]
    if low < floor:
        return [("undecided", f"{said} spans the floor of {floor:g}")]
    return []


def _rate_reasons(counts: Counts, gate: Gate) -> list[tuple[Verdict, str]]:
    reasons: list[tuple[Verdict, str]] = []
    rate = acceptance_rate(counts)
    if gate.min_rate is not None and rate is not None and rate < gate.min_rate:
        reasons.append(("fail", f"acceptance rate {rate:.1%} is below {gate.min_rate:.1%}"))
    rates = per_position_rates(counts)
    for position, floor in enumerate(gate.min_per_position):
        actual = rates[position] if position < len(rates) else None
        if actual is None:
            reasons.append(("undecided", f"nothing was drafted at position {position}"))
        elif actual < floor:
            reasons.append(("fail", f"position {position} is {actual:.3f}, below {floor:g}"))
    return reasons


def _passed(length: float, gate: Gate) -> str:
    floor = gate.length_floor
    against = "no floor is set" if floor is None else f"the floor is {floor:g}"
    return f"mean acceptance length {length:.2f}; {against}"
