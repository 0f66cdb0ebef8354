"""A verdict on a drafter from what was counted: pure, and with its uncertainty.

pass: every condition of the gate holds · fail: one is broken · undecided: an interval spans its
floor · no-data: nothing was drafted · too-few-drafts: less than the gate asks for · unknown: the
counts cannot be trusted, and the reason says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from deployctl.vllm.acceptance.interval import (
    Interval,
    Pair,
    Ratio,
    difference,
    difference_interval,
    ratio_interval,
)
from deployctl.vllm.acceptance.window import Span
from deployctl.vllm.counters.counts import (
    Counts,
    acceptance_rate,
    mean_acceptance_length,
    per_position_rates,
)

Verdict = Literal["pass", "fail", "undecided", "no-data", "too-few-drafts", "unknown"]


@dataclass(frozen=True)
class Gate:
    """What acceptance must reach; an absent floor is not checked.

    `last_good` is the mean acceptance length of the last good release on the same prompts, and
    `tolerance` how far below it is still accepted, prompt by prompt (`judge`'s `earlier`).
    `drafts_asked`: somebody wants that many; else it is a default, which doubt about the drafts
    does not break.
    """

    min_length: float | None = None
    min_rate: float | None = None
    min_per_position: tuple[float, ...] = ()
    min_drafts: int = 1
    confidence: float = 0.95
    tolerance: float | None = None
    last_good: float | None = None
    drafts_asked: bool = True

    @property
    def length_floor(self) -> float | None:
        """The floor of the mean acceptance length: the higher of the two ways to set one."""
        floors = [] if self.min_length is None else [self.min_length]
        if self.tolerance is not None and self.last_good is not None:
            floors.append(max(1.0, self.last_good - self.tolerance))
        return max(floors, default=None)


@dataclass(frozen=True)
class Judgement:
    """The verdict, a sentence for each reason, and the interval of the mean acceptance length."""

    verdict: Verdict
    reasons: tuple[str, ...]
    interval: Interval | None = None


@dataclass(frozen=True)
class Certain:
    """What is certain of figures that a log rounds: the least and the most of each."""

    drafts: tuple[int, int] | None = None
    length: Span | None = None
    positions: tuple[Span | None, ...] = ()


@dataclass(frozen=True)
class Condition:
    """One floor: what it is on, the value pooled over all requests, and each request's share.

    `span` is what is certain of the value, where it is not known.
    """

    what: str
    floor: float
    value: float | None
    ratios: tuple[Ratio, ...]
    offset: float = 0.0
    span: Span | None = None


def judge(
    counts: Counts,
    samples: Sequence[Counts],
    gate: Gate,
    seed: int = 0,
    confidence: float | None = None,
    length: float | None = None,
    certain: Certain | None = None,
    earlier: Sequence[tuple[Counts, Counts]] = (),
) -> Judgement:
    """Judge pooled counts.

    `samples` are the counts of single requests; without any (a log, two readings of /metrics)
    there is no interval and the pooled values decide alone. `confidence` replaces the gate's
    (early looks ask for more). `length` is the mean acceptance length where a log prints it and
    does not tell the drafts, and `certain` what is certain then. `earlier` are the prompts that
    the last good release was asked, too: our counts, and its own.
    """
    confidence = gate.confidence if confidence is None else confidence
    certain = certain or Certain()
    if counts.drafts and not counts.draft_tokens:
        partial = f"{counts.drafts} drafts and not one draft token: counters are missing"
        return Judgement("unknown", (partial,))
    if counts.accepted_tokens > counts.draft_tokens:
        more = f"{counts.accepted_tokens} tokens accepted of {counts.draft_tokens} drafted"
        return Judgement("unknown", (f"{more}: these counts cannot be",))
    if counts.drafts == 0 or not counts.draft_tokens:
        return Judgement("no-data", ("no traffic measured: nothing was drafted",))
    interval = ratio_interval(_length_ratios(samples), confidence, seed, 1.0)
    few = _too_few(counts, gate, length, certain)
    if few is not None:
        return Judgement(*few, interval)
    judged = [
        _against_floor(condition, bool(samples), confidence, seed)
        for condition in _conditions(counts, samples, gate, length, certain)
    ]
    if gate.tolerance is not None and earlier:
        judged.append(_against_earlier(earlier, gate.tolerance, confidence, seed))
    for verdict in ("fail", "undecided"):
        reasons = tuple(reason for found, reason in judged if found == verdict)
        if reasons:
            return Judgement(verdict, reasons, interval)
    said = tuple(reason for _, reason in judged)
    return Judgement("pass", said or (_without_floor(counts, length),), interval)


def _too_few(
    counts: Counts, gate: Gate, length: float | None, certain: Certain
) -> tuple[Verdict, tuple[str]] | None:
    """The verdict where there are too few drafts, or it is not known whether there are enough."""
    least, most = certain.drafts or _drafts_span(counts, length)
    asked = f"the gate asks for {gate.min_drafts}"
    if most < gate.min_drafts:
        number = str(most) if least == most else f"at most {most}"
        return "too-few-drafts", (f"{number} drafts are too few: {asked}",)
    if least < gate.min_drafts and gate.drafts_asked:
        return "undecided", (f"the drafts are not known, only {least} to {most}: {asked}",)
    return None


def _drafts_span(counts: Counts, length: float | None) -> tuple[int, int]:
    """The least and the most drafts: each has at least one token."""
    if counts.drafts is not None:
        return counts.drafts, counts.drafts
    if length is not None and length > 1:
        drafts = round(counts.accepted_tokens / (length - 1))
        return drafts, drafts
    return min(1, counts.draft_tokens), counts.draft_tokens


def _without_floor(counts: Counts, length: float | None) -> str:
    length = mean_acceptance_length(counts) if length is None else length
    if length is None:
        return f"acceptance rate {acceptance_rate(counts):.3f}; no floor is set"
    return f"mean acceptance length {length:.2f}; no floor is set"


def _conditions(
    counts: Counts,
    samples: Sequence[Counts],
    gate: Gate,
    length: float | None,
    certain: Certain,
) -> Iterator[Condition]:
    floor = gate.min_length
    if floor is not None:
        ratios = _length_ratios(samples)
        length = mean_acceptance_length(counts) if length is None else length
        yield Condition("mean acceptance length", floor, length, ratios, 1.0, certain.length)
    if gate.min_rate is not None:
        ratios = tuple((one.accepted_tokens, one.draft_tokens) for one in samples)
        yield Condition("acceptance rate", gate.min_rate, acceptance_rate(counts), ratios)
    rates = per_position_rates(counts)
    for position, minimum in enumerate(gate.min_per_position):
        rate = rates[position] if position < len(rates) else None
        ratios = tuple((_accepted_at(one, position), one.drafts or 0) for one in samples)
        span = certain.positions[position] if position < len(certain.positions) else None
        what = f"acceptance at position {position}"
        yield Condition(what, minimum, rate, ratios, 0.0, span)


def _against_floor(
    condition: Condition, sampled: bool, confidence: float, seed: int
) -> tuple[Verdict, str]:
    floor = f"the floor of {condition.floor:g}"
    if condition.span is not None and condition.span[0] < condition.span[1]:
        low, high = condition.span
        said = f"{condition.what} is unknown, only {low:.4g} to {high:.4g}: it"
    elif condition.value is None and condition.span is None:
        return (
            "undecided",
            f"{condition.what} is unknown: not counted, or nothing was drafted there",
        )
    else:
        value = condition.span[0] if condition.span is not None else condition.value
        low = high = value or 0.0
        said = f"{condition.what} {low:.3g}"
    interval = ratio_interval(condition.ratios, confidence, seed, condition.offset)
    if interval is None and sampled:
        return "undecided", f"{said} comes from a single request, which gives no interval"
    if interval is not None:
        low, high = interval.low, interval.high
        said += f" ({low:.3g} to {high:.3g} at {confidence:.4g} confidence)"
    if high < condition.floor:
        return "fail", f"{said} is below {floor}"
    if low < condition.floor:
        return "undecided", f"{said} spans {floor}"
    return "pass", f"{said} is above {floor}" if low > condition.floor else f"{said} is at {floor}"


def _against_earlier(
    earlier: Sequence[tuple[Counts, Counts]], tolerance: float, confidence: float, seed: int
) -> tuple[Verdict, str]:
    """Whether the length is as good as the last good release's, on the prompts both were asked."""
    pairs: list[Pair] = [
        ((ours.accepted_tokens, ours.drafts or 0), (theirs.accepted_tokens, theirs.drafts or 0))
        for ours, theirs in earlier
        if ours.drafts and theirs.drafts
    ]
    interval = difference_interval(pairs, confidence, seed)
    if interval is None:
        few = "too few prompts were asked of the last good release, too"
        return "undecided", f"{few}: {len(pairs)}"
    before = 1 + sum(p[1][0] for p in pairs) / sum(p[1][1] for p in pairs)
    less = difference(pairs)
    floor = f"the floor of {max(1.0, before - tolerance):.3g}"
    said = (
        f"mean acceptance length {before + less:.3g} on the {len(pairs)} prompts that the last "
        f"good release was asked, too, is {less:+.3g} ({interval.low:+.3g} to {interval.high:+.3g} "
        f"at {confidence:.4g} confidence) against its {before:.3g}"
    )
    if interval.high < -tolerance:
        return "fail", f"{said}: below {floor}"
    if interval.low < -tolerance:
        return "undecided", f"{said}: spans {floor}"
    return "pass", f"{said}: not below {floor}"


def _length_ratios(samples: Sequence[Counts]) -> tuple[Ratio, ...]:
    return tuple((one.accepted_tokens, one.drafts or 0) for one in samples)


def _accepted_at(counts: Counts, position: int) -> int:
    return counts.per_position[position] if position < len(counts.per_position) else 0
