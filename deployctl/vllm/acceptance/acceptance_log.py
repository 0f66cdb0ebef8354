"""Acceptance from a server's log, for people who have only that.

vLLM prints a line about every ten seconds, in spellings that changed from version to version:
fields came, moved and were renamed, so each is found by its name, in any order. An idle window
prints `nan`, or nothing. The line gives tokens and not drafts; these follow from the printed
length and rates where only one number fits all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from deployctl.vllm.acceptance.counts import NOTHING, Counts, pooled

LINE = re.compile(r"SpecDecoding metrics: *(?P<fields>.*)$")
NUMBER = r"(nan|-?\d+(?:\.\d+)?)"
LENGTH = re.compile(rf"Mean acceptance length: *{NUMBER}", re.IGNORECASE)
RATE = re.compile(rf"Draft acceptance rate: *{NUMBER} *%", re.IGNORECASE)
ACCEPTED = re.compile(r"\bAccepted: *(\d{1,15}) tokens", re.IGNORECASE)
DRAFTED = re.compile(r"\bDrafted: *(\d{1,15}) tokens", re.IGNORECASE)
POSITIONS = re.compile(
    rf"Per-position acceptance rate: *({NUMBER}(?: *, *{NUMBER})*)", re.IGNORECASE
)

ROUNDED = 0.005 + 1e-9
"""How far a length printed with two digits may lie from the true one."""


@dataclass(frozen=True)
class Window:
    """One line: what was accepted and drafted since the line before.

    `length` and `rate` are as printed (rate 0 to 1), None for `nan` or where the spelling lacks
    them; so are `positions`. `drafts` is None where several numbers fit.
    """

    accepted: int
    drafted: int
    length: float | None
    rate: float | None
    positions: tuple[float | None, ...]
    drafts: int | None

    @property
    def idle(self) -> bool:
        """Nothing was drafted."""
        return self.drafted == 0


@dataclass(frozen=True)
class LogCounts:
    """What a log gives over all of its windows: `length` where drafts are not known for sure."""

    counts: Counts
    length: float | None
    positions: tuple[float | None, ...]
    windows: int
    idle: int


def windows(lines: Iterable[str]) -> list[Window]:
    """The windows of a log, in order; other lines are passed over."""
    return [window for line in lines if (window := read(line)) is not None]


def read(line: str) -> Window | None:
    """One line's window; None where it is no such line."""
    found = LINE.search(line)
    if found is None:
        return None
    fields = found["fields"]
    accepted, drafted = ACCEPTED.search(fields), DRAFTED.search(fields)
    if accepted is None or drafted is None:
        return None
    length, rate = LENGTH.search(fields), RATE.search(fields)
    positions = POSITIONS.search(fields)
    rates = tuple(_number(text) for text in positions[1].split(",")) if positions else ()
    percent = _number(rate[1]) if rate else None
    printed = _number(length[1]) if length else None
    return Window(
        accepted=int(accepted[1]),
        drafted=int(drafted[1]),
        length=printed,
        rate=None if percent is None else percent / 100,
        positions=rates,
        drafts=_drafts(int(accepted[1]), int(drafted[1]), printed, rates),
    )


def pool(found: Iterable[Window]) -> LogCounts:
    """All windows together: counts are added, rates are weighed by the drafts of their window.

    A single window keeps the length that was printed.
    """
    listed = list(found)
    busy = [window for window in listed if not window.idle]
    if not busy:
        return LogCounts(NOTHING, None, (), len(listed), len(listed))
    counts = pooled(_counts(window) for window in busy)
    if counts.drafts is None:
        counts = replace(counts, per_position=())
    weights = [_weight(window) for window in busy]
    length: float | None
    if len(busy) == 1:
        length = busy[0].length
    elif any(weight is None for weight in weights):
        length = None
    else:
        length = 1 + counts.accepted_tokens / sum(weight or 0.0 for weight in weights)
    positions = busy[0].positions if len(busy) == 1 else _positions(busy, weights)
    return LogCounts(counts, length, positions, len(listed), len(listed) - len(busy))


def _number(text: str) -> float | None:
    value = float(text)
    return None if math.isnan(value) else value


def _drafts(
    accepted: int, drafted: int, length: float | None, rates: tuple[float | None, ...]
) -> int | None:
    """The number of drafts, where exactly one fits everything that was printed."""
    if drafted == 0:
        return 0
    if not rates or length is None or any(rate is None for rate in rates):
        return None
    known = [rate for rate in rates if rate is not None]
    least, most = math.ceil(drafted / len(rates)), drafted
    if accepted and length > 1:
        least = max(least, math.floor(accepted / (length - 1 + ROUNDED)))
        most = min(most, math.ceil(accepted / max(length - 1 - ROUNDED, accepted / drafted)))
    candidates = range(least, most + 1)
    fitting = (drafts for drafts in candidates if _fits(drafts, accepted, length, known))
    found = list(islice(fitting, 2))
    return found[0] if len(found) == 1 else None


def _fits(drafts: int, accepted: int, length: float, rates: list[float]) -> bool:
    """Whether whole counts with this sum print as these numbers."""
    if abs(1 + accepted / drafts - length) > ROUNDED:
        return False
    counts = [round(rate * drafts) for rate in rates]
    printed = all(
        abs(count / drafts - rate) <= 0.0005 + 1e-9
        for count, rate in zip(counts, rates, strict=True)
    )
    return printed and sum(counts) == accepted


def _counts(window: Window) -> Counts:
    drafts = window.drafts
    at = [] if drafts is None else [round((rate or 0.0) * drafts) for rate in window.positions]
    return Counts(drafts, window.drafted, window.accepted, tuple(at))


def _weight(window: Window) -> float | None:
    """A window's drafts, as closely as its line tells.

    A drafter of fixed length proposes as many tokens as there are positions each time; where that
    contradicts the printed length, the length decides.
    """
    if window.drafts is not None:
        return float(window.drafts)
    if window.positions:
        fixed = window.drafted / len(window.positions)
        if window.length is None or abs(1 + window.accepted / fixed - window.length) <= ROUNDED:
            return fixed
    if window.length is not None and window.length > 1:
        return window.accepted / (window.length - 1)
    return None


def _positions(busy: list[Window], weights: list[float | None]) -> tuple[float | None, ...]:
    width = max(len(window.positions) for window in busy)
    means: list[float | None] = []
    for position in range(width):
        terms = [
            (rate, weight)
            for window, weight in zip(busy, weights, strict=True)
            if weight and (rate := _rate(window, position)) is not None
        ]
        total = sum(weight for _, weight in terms)
        means.append(sum(rate * weight for rate, weight in terms) / total if total else None)
    return tuple(means)


def _rate(window: Window, position: int) -> float | None:
    """A window's rate at a position: as exact as its line tells, and 0 beyond its last one."""
    printed = window.positions[position] if position < len(window.positions) else 0.0
    if printed is None or not window.drafts:
        return printed
    return round(printed * window.drafts) / window.drafts
