"""Speeds of two servers on the same requests, compared. Pure.

A round is as many requests as the concurrency, sent at once. Each round of a candidate is a sample:
the tokens of its answers, and the seconds of its requests added up. At a concurrency of c the
speed is c times all tokens over all these seconds, in tokens per second: the speed while c requests
are in flight.

How long the answers are, and how well they are drafted, is the same for every candidate; how fast
the machine is at a moment is not. Where a server runs that does not change meanwhile (what serves),
it is asked each round as well, right before or after: its samples are the candidate's `reference`.
Candidates are compared by what they are above their references, round by round, and the rounds are
drawn again to get an interval (`acceptance.interval`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployctl.vllm.acceptance import interval
from deployctl.vllm.acceptance.interval import Interval
from deployctl.vllm.acceptance.sequential import confidence_at

SEED = 0


@dataclass(frozen=True)
class Sample:
    """One round: the tokens of its answers, and the seconds of its requests added up."""

    tokens: int
    seconds: float


NOTHING = Sample(1, 1.0)
"""In place of a reference that was not measured: it changes no quotient."""


@dataclass(frozen=True)
class Series:
    """The rounds of one candidate in order, and the same rounds of what serves, asked beside each;
    no reference where nothing serves meanwhile. One that was stopped early has fewer."""

    own: Sequence[Sample]
    reference: Sequence[Sample] = ()

    def rounds(self) -> list[tuple[Sample, Sample]]:
        """Each round with its reference."""
        return list(zip(self.own, self.reference or [NOTHING] * len(self.own), strict=True))


Quad = tuple[tuple[Sample, Sample], tuple[Sample, Sample]]


def rate(samples: Sequence[Sample]) -> float:
    """Tokens per second of one request at a time."""
    return sum(one.tokens for one in samples) / sum(one.seconds for one in samples)


def speed(samples: Sequence[Sample], concurrency: int) -> float:
    """Tokens per second while that number of requests is in flight."""
    return concurrency * rate(samples)


def speed_interval(
    samples: Sequence[Sample], concurrency: int, confidence: float
) -> Interval | None:
    """The interval of a speed, in tokens per second; None for fewer than two rounds."""
    ratios = [(concurrency * one.tokens, one.seconds) for one in samples]
    return interval.ratio_interval(ratios, confidence, SEED)


def lead(ours: Series, theirs: Series) -> float:
    """How much faster one is than the other, as a share (0.25: a quarter), over the rounds that
    both have."""
    return _lead(_both(ours, theirs))


def lead_interval(ours: Series, theirs: Series, confidence: float) -> Interval | None:
    """The interval of a lead; None for fewer than two rounds that both have."""
    return interval.resampled(_lead, _both(ours, theirs), confidence, SEED)


def _both(ours: Series, theirs: Series) -> list[Quad]:
    return list(zip(ours.rounds(), theirs.rounds(), strict=False))


def _lead(quads: Sequence[Quad]) -> float:
    above = [_above([quad[side] for quad in quads]) for side in (0, 1)]
    return above[0] / above[1] - 1


def _above(rounds: Sequence[tuple[Sample, Sample]]) -> float:
    return rate([own for own, _ in rounds]) / rate([reference for _, reference in rounds])


def together(first: Series, second: Series) -> Series:
    """Two measurements of the same candidate as one: tokens and seconds of each round added."""
    return Series(
        [
            Sample(one.tokens + other.tokens, one.seconds + other.seconds)
            for one, other in zip(first.own, second.own, strict=False)
        ]
    )


def shared(confidence: float, comparisons: int) -> float:
    """The confidence of each of several comparisons, so that all hold together with this one
    (Bonferroni)."""
    return 1 - (1 - confidence) / max(1, comparisons)


def cannot_win(ours: Series, leader: Series, rounds: int, confidence: float) -> bool:
    """Whether a candidate is slower than the fastest one so far, by an interval that a look before
    the last one takes ten times stricter (Haybittle and Peto, `acceptance.sequential`)."""
    found = lead_interval(ours, leader, confidence_at(len(ours.own), rounds, confidence))
    return found is not None and found.high < 0
