"""Counts of speculative decoding, and the figures that follow from them.

The formulas are those of vLLM's own log (`vllm/v1/spec_decode/metrics.py`): a draft is one
proposal that the target checked; of its tokens a leading part is accepted, and the target adds
one token of its own, the bonus token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """What was drafted and what was accepted, over one request or many.

    `drafts` is None where a source does not tell it (a log prints tokens only).
    `per_position[i]` counts the drafts whose token i was accepted; `drafted_per_position[i]`
    those that proposed one, where a source tells it.
    """

    drafts: int | None
    draft_tokens: int
    accepted_tokens: int
    per_position: tuple[int, ...] = ()
    drafted_per_position: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        numbers = (self.drafts or 0, self.draft_tokens, self.accepted_tokens, *self.per_position)
        if min(numbers) < 0:
            raise ValueError(f"a count is negative: {self}")


NOTHING = Counts(0, 0, 0)


def mean_acceptance_length(counts: Counts) -> float | None:
    """Tokens per step of the target: 1 + accepted / drafts.

    None without drafts, and for drafts without a token: these are counts of which some are missing.
    """
    if not counts.drafts or not counts.draft_tokens:
        return None
    return 1 + counts.accepted_tokens / counts.drafts


def acceptance_rate(counts: Counts) -> float | None:
    """Accepted tokens / drafted tokens, 0 to 1. None without draft tokens."""
    if not counts.draft_tokens:
        return None
    return counts.accepted_tokens / counts.draft_tokens


def per_position_rates(counts: Counts) -> list[float | None]:
    """For each position: drafts whose token there was accepted / all drafts.

    None for a position at which nothing was drafted, as far as the source tells.
    """
    if not counts.drafts:
        return [None] * len(counts.per_position)
    rates: list[float | None] = [accepted / counts.drafts for accepted in counts.per_position]
    for position, drafted in enumerate(counts.drafted_per_position or ()):
        if drafted == 0 and position < len(rates):
            rates[position] = None
    return rates


def conditional_rates(rates: Sequence[float | None]) -> list[float | None]:
    """From per-position rates: accepted at a position, given that the one before was accepted.

    None where nothing was accepted before, so that nothing could be.
    """
    before = [1.0, *rates]
    return [
        rate / given if rate is not None and given else None
        for given, rate in zip(before, rates, strict=False)
    ]


def pooled(parts: Iterable[Counts]) -> Counts:
    """The sum of several counts; `drafts` is None as soon as one part does not know it."""
    listed = list(parts)
    drafts = [part.drafts for part in listed]
    known = [number for number in drafts if number is not None]
    return Counts(
        drafts=sum(known) if len(known) == len(drafts) else None,
        draft_tokens=sum(part.draft_tokens for part in listed),
        accepted_tokens=sum(part.accepted_tokens for part in listed),
        per_position=_columns([part.per_position for part in listed]),
        drafted_per_position=_columns([part.drafted_per_position for part in listed])
        if listed and all(part.drafted_per_position is not None for part in listed)
        else None,
    )


def _columns(rows: list[tuple[int, ...]] | list[tuple[int, ...] | None]) -> tuple[int, ...]:
    """Column sums of rows that may differ in length."""
    width = max((len(row) for row in rows if row), default=0)
    return tuple(
        sum(row[column] for row in rows if row and column < len(row)) for column in range(width)
    )
