"""An interval for a pooled ratio, such as accepted / drafts: a bootstrap over requests.

Drafts within one request depend on each other, requests do not; so whole requests are drawn
again, with replacement, and the pooled ratio is taken each time. The percentiles are widened for
small samples ("expanded percentile interval", T. Hesterberg, What Teachers Should Know About the
Bootstrap, The American Statistician 69, 2015): plain percentiles are too narrow by about
sqrt((n - 1) / n), and take a normal for a t quantile.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

RESAMPLES = 2000


Ratio = tuple[float, float]
"""One request's share of a pooled ratio: numerator and denominator."""


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, at `confidence` (0 to 1), from `samples` requests."""

    low: float
    high: float
    confidence: float
    samples: int


def ratio_interval(
    ratios: Sequence[Ratio],
    confidence: float,
    seed: int,
    offset: float = 0.0,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """The interval of offset + sum of numerators / sum of denominators.

    Requests with a denominator of 0 say nothing and are left out; None for fewer than two others.
    The same ratios and seed give the same interval.
    """
    ratios = [ratio for ratio in ratios if ratio[1] > 0]
    if len(ratios) < 2:
        return None
    draw = random.Random(seed)
    values = []
    for _ in range(resamples):
        drawn = draw.choices(ratios, k=len(ratios))
        values.append(offset + sum(one[0] for one in drawn) / sum(one[1] for one in drawn))
    values.sort()
    tail = expanded_tail(confidence, len(ratios))
    return Interval(_quantile(values, tail), _quantile(values, 1 - tail), confidence, len(ratios))


Item = TypeVar("Item")

Pair = tuple[Ratio, Ratio]
"""One prompt's shares of two pooled ratios."""


def difference_interval(
    pairs: Sequence[Pair], confidence: float, seed: int, resamples: int = RESAMPLES
) -> Interval | None:
    """The interval of one pooled ratio less another, both over the same prompts.

    Prompts are drawn with both of their shares, so that what is easy or hard about a prompt
    stands on both sides. None for fewer than two that say something on both.
    """
    pairs = [pair for pair in pairs if pair[0][1] > 0 and pair[1][1] > 0]
    return resampled(difference, pairs, confidence, seed, resamples)


def resampled(
    of: Callable[[Sequence[Item]], float],
    items: Sequence[Item],
    confidence: float,
    seed: int,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """The interval of a figure of some items that are drawn again, with replacement; None for
    fewer than two."""
    if len(items) < 2:
        return None
    draw = random.Random(seed)
    values = sorted(of(draw.choices(items, k=len(items))) for _ in range(resamples))
    tail = expanded_tail(confidence, len(items))
    return Interval(_quantile(values, tail), _quantile(values, 1 - tail), confidence, len(items))


def difference(pairs: Sequence[Pair]) -> float:
    """One pooled ratio less the other."""
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    return _pooled(ours) - _pooled(theirs)


def _pooled(ratios: Sequence[Ratio]) -> float:
    return sum(ratio[0] for ratio in ratios) / sum(ratio[1] for ratio in ratios)


def expanded_tail(confidence: float, samples: int) -> float:
    """The probability to cut off at each end of the bootstrap distribution of `samples` values."""
    wanted = t_quantile((1 + confidence) / 2, samples - 1)
    return NormalDist().cdf(-wanted * math.sqrt(samples / (samples - 1)))


def t_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t with `freedom` degrees of freedom.

    Exact for 1 and 2; else the expansion of Abramowitz and Stegun, 26.7.5, which for the
    probabilities in use here is right to about one part in a hundred at 3 and far better above.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        centred = 2 * probability - 1
        return centred * math.sqrt(2 / (1 - centred**2))
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))


def _quantile(ordered: Sequence[float], probability: float) -> float:
    """The quantile of ordered values, linear between neighbours."""
    place = probability * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
