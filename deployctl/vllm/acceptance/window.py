"""What one line of a log counts, and what follows from its rounded numbers.

A line gives tokens and not drafts, and rates that are rounded. Where only one number of drafts
fits all that was printed, it is known; else there is a least and a most, and nothing between
them is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

Program = Literal["vllm", "vllm-v0", "llama.cpp"]
RatesOf = Literal["drafts", "drafted", "unknown"]
"""Of all drafts · of those that proposed a token there · cut off, or nothing to compare with."""
Span = tuple[float, float]
"""The least and the most that a figure can be; the same number twice where it is known."""

CANDIDATES = 100_000
"""Numbers of drafts that are tried at most."""
LENGTH_ROUNDED = 0.005 + 1e-9
"""How far a length printed with two digits may lie from the true one."""
RATE_ROUNDED = 0.0005 + 1e-9
"""The same for a rate with three."""


@dataclass(frozen=True)
class Window:
    """One line: what was accepted and drafted since the line before.

    `length` and `rate` are as printed (rate 0 to 1), None for `nan` or where the spelling lacks
    them; so are `positions`. `drafts` is None where several numbers fit. `each` is how many tokens
    a draft may have, None where the line does not tell. `emitted` counts the tokens that came out
    of drafts, and is there where accepted tokens do not tell it. `running` lines count from the
    server's start on; `source` keeps those of one drafter apart. `rates_of` says what the rates
    by position are of.
    """

    accepted: int
    drafted: int
    length: float | None = None
    rate: float | None = None
    positions: tuple[float | None, ...] = ()
    drafts: int | None = None
    program: Program = "vllm"
    each: int | None = None
    emitted: int | None = None
    running: bool = False
    source: str = ""
    rates_of: RatesOf = "unknown"

    @property
    def idle(self) -> bool:
        """Nothing was drafted."""
        return self.drafted == 0

    @property
    def drafts_span(self) -> tuple[int, int]:
        """The least and the most drafts that this line can stand for."""
        if self.drafts is not None:
            return self.drafts, self.drafts
        least, most = _by_tokens(self.drafted, self.each)
        if self.emitted is not None:
            return least, max(least, min(most, self.emitted))
        if self.length is None:
            return least, most
        low, high = _by_length(self.accepted, self.length)
        # A length that contradicts the tokens bounds nothing.
        if low > most or high < least:
            return least, most
        return max(least, low), min(most, high)

    @property
    def length_span(self) -> Span | None:
        """The mean acceptance length; None where nothing was drafted."""
        if self.idle:
            return None
        least, most = self.drafts_span
        if self.emitted is not None:
            return max(1.0, self.emitted / most), self.emitted / least
        low, high = 1 + self.accepted / most, 1 + self.accepted / least
        if self.length is not None and self.drafts is None:
            printed = (self.length - LENGTH_ROUNDED, self.length + LENGTH_ROUNDED)
            if printed[0] <= high and printed[1] >= low:
                return max(low, printed[0]), min(high, printed[1])
        return low, high


def drafts_of(window: Window) -> int | None:
    """The number of drafts, where exactly one fits everything that was printed."""
    known = [rate for rate in window.positions if rate is not None]
    if window.idle:
        return 0
    if window.length is None or not known or len(known) < len(window.positions):
        return None
    least, most = window.drafts_span
    if most - least > CANDIDATES:
        return None
    candidates = range(least, most + 1)
    fitting = (one for one in candidates if _fits(one, window.accepted, window.length, known))
    found = list(islice(fitting, 2))
    return found[0] if len(found) == 1 else None


def meaning(length: float | None, rates: Sequence[float | None]) -> RatesOf:
    """What rates by position are of: a length is 1 + their sum only where they are of all drafts.

    Where the sum is more, each is of the drafts that proposed a token there; where it is less,
    some were cut off.
    """
    if length is None or not rates or any(rate is None for rate in rates):
        return "unknown"
    total = math.fsum(rate for rate in rates if rate is not None)
    slack = LENGTH_ROUNDED + RATE_ROUNDED * len(rates)
    if abs(length - 1 - total) <= slack:
        return "drafts"
    return "drafted" if total > length - 1 else "unknown"


def _by_tokens(drafted: int, each: int | None) -> tuple[int, int]:
    """A draft has at least one token, and at most this many."""
    return (math.ceil(drafted / each) if each else min(drafted, 1)), drafted


def _by_length(accepted: int, length: float) -> tuple[int, int]:
    """Drafts from accepted tokens and a rounded length."""
    least = math.ceil(accepted / (length - 1 + LENGTH_ROUNDED)) if length >= 1 else 0
    over = length - 1 - LENGTH_ROUNDED
    most = math.floor(accepted / over) if over > 0 else 10**15
    return least, most


def _fits(drafts: int, accepted: int, length: float, rates: list[float]) -> bool:
    """Whether whole counts with this sum print as these numbers."""
    if abs(1 + accepted / drafts - length) > LENGTH_ROUNDED:
        return False
    counts = [round(rate * drafts) for rate in rates]
    printed = all(
        abs(count / drafts - rate) <= RATE_ROUNDED
        for count, rate in zip(counts, rates, strict=True)
    )
    return printed and sum(counts) == accepted
