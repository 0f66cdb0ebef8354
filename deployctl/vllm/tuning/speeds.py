"""Speeds of two servers on the same requests, compared. Pure.

Each request of a candidate is a sample: its tokens and its seconds. At a concurrency of c the speed
is c times all tokens over all seconds of requests, in tokens per second: the speed while c requests
are in flight. A request's own length and difficulty are the same for every candidate, so two
candidates are compared on the requests that both answered, drawn again as pairs
(`acceptance.interval`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployctl.vllm.acceptance import interval
from deployctl.vllm.acceptance.interval import Interval, Pair
from deployctl.vllm.acceptance.sequential import FIRST_LOOK, confidence_at

SEED = 0


@dataclass(frozen=True)
class Sample:
    """One answered request: the tokens of its answer, and the seconds until its end."""

    tokens: int
    seconds: float


Series = Sequence[Sample | None]
"""The samples of one candidate, by request; None where a request failed. One that was stopped
early has fewer."""


def answered(series: Series) -> list[Sample]:
    """The samples that count: a request without tokens or time says nothing."""
    return [one for one in series if one is not None and one.tokens > 0 and one.seconds > 0]


def speed(series: Series, concurrency: int) -> float | None:
    """Tokens per second; None without a sample."""
    samples = answered(series)
    seconds = sum(one.seconds for one in samples)
    return concurrency * sum(one.tokens for one in samples) / seconds if samples else None


def speed_interval(series: Series, concurrency: int, confidence: float) -> Interval | None:
    """The interval of a speed, in tokens per second; None for fewer than two samples."""
    ratios = [(concurrency * one.tokens, one.seconds) for one in answered(series)]
    return interval.ratio_interval(ratios, confidence, SEED)


def pairs(ours: Series, theirs: Series) -> list[Pair]:
    """Both samples of each request that both have answered."""
    return [
        ((one.tokens, one.seconds), (other.tokens, other.seconds))
        for one, other in zip(ours, theirs, strict=False)
        if one is not None and other is not None and answered((one, other)) == [one, other]
    ]


def lead(ours: Series, theirs: Series) -> float | None:
    """How much faster one is than the other, as a share (0.25: a quarter); None without a
    request that both answered."""
    both = pairs(ours, theirs)
    return interval.lead(both) if both else None


def lead_interval(ours: Series, theirs: Series, confidence: float) -> Interval | None:
    """The interval of a lead; None for fewer than two requests that both answered."""
    return interval.lead_interval(pairs(ours, theirs), confidence, SEED)


def together(first: Series, second: Series) -> list[Sample | None]:
    """Two measurements of the same candidate as one: tokens and seconds of each request added."""
    return [
        Sample(one.tokens + other.tokens, one.seconds + other.seconds) if one and other else None
        for one, other in zip(first, second, strict=False)
    ]


def shared(confidence: float, comparisons: int) -> float:
    """The confidence of each of several comparisons, so that all hold together with this one
    (Bonferroni)."""
    return 1 - (1 - confidence) / max(1, comparisons)


def looks(requests: int, concurrency: int) -> list[int]:
    """After how many requests a candidate is looked at: whole rounds of the concurrency, doubled
    each time, and all requests at the end."""
    look = -(-FIRST_LOOK // concurrency) * concurrency
    planned = []
    while look < requests:
        planned.append(look)
        look *= 2
    return [*planned, requests]


def cannot_win(ours: Series, leader: Series, requests: int, confidence: float) -> bool:
    """Whether a candidate is slower than the fastest one so far, by an interval that a look before
    the last one takes ten times stricter (Haybittle and Peto, `acceptance.sequential`)."""
    found = lead_interval(ours, leader, confidence_at(len(ours), requests, confidence))
    return found is not None and found.high < 0
