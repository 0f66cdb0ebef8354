"""Acceptance from a server's log, for people who have only that: all of its lines together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deployctl.vllm.acceptance import log_forms
from deployctl.vllm.acceptance.window import RATE_ROUNDED, Span, Window
from deployctl.vllm.counters.counts import NOTHING, Counts, pooled

QUOTED = 300
"""Characters of a line that are quoted."""
OVER_DRAFTED = (
    "the rates by position in it are over the drafts that proposed a token there, not over all"
)
V0_ACCEPTED = (
    "vLLM V0 counts matches behind the first rejected token as accepted too; the length comes "
    "from its emitted tokens"
)


@dataclass(frozen=True)
class LogCounts:
    """What a log gives over all of its windows.

    `length` is the best figure, and `length_span` and `drafts_span` what is certain about it;
    None where nothing is. `positions` are rates over all drafts, within `position_spans`.
    """

    counts: Counts
    length: float | None
    positions: tuple[float | None, ...]
    windows: int
    idle: int
    drafts_span: tuple[int, int] | None = None
    length_span: Span | None = None
    position_spans: tuple[Span | None, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Log:
    """A log's windows, and what else it says about speculation.

    `unread` is the first line with a figure in a form that is not understood, `unread_lines` how
    many there are; `plain` is vLLM's line that it runs without speculation.
    """

    windows: tuple[Window, ...]
    unread: str | None = None
    unread_lines: int = 0
    plain: str | None = None


class Mixed(Exception):
    """The lines count different things, so their sum is meaningless; the message says which."""


def scan(lines: Iterable[str]) -> Log:
    """What a log says about speculation, in order."""
    found: list[Window] = []
    unread: list[str] = []
    plain = None
    for text in itertools.chain.from_iterable(map(log_forms.pieces, lines)):
        line = log_forms.read(text)
        if line.window is not None:
            found.append(line.window)
        elif line.mentions:
            unread.append(text)
        elif line.plain:
            plain = plain or _quoted(text)
    first = _quoted(unread[0]) if unread else None
    return Log(tuple(_once(found)), first, len(unread), plain)


def windows(lines: Iterable[str]) -> list[Window]:
    """The windows of a log, in order; other lines are passed over."""
    return list(scan(lines).windows)


def read(line: str) -> Window | None:
    """One line's window; None where it is another line."""
    return log_forms.read(line).window


def pool(found: Iterable[Window]) -> LogCounts:
    """All windows together: counts are added, rates are weighed by the drafts of their window.

    A single window keeps the length that was printed. Raises `Mixed` for lines of several
    programs, or of drafters that propose different numbers of tokens.
    """
    listed = list(found)
    busy = [window for window in listed if not window.idle]
    if not busy:
        return LogCounts(NOTHING, None, (), len(listed), len(listed))
    _check_one_server(busy)
    counts = pooled(_counts(window) for window in busy)
    if counts.drafts is None:
        counts = replace(counts, per_position=())
    spans = [window.drafts_span for window in busy]
    drafts_span = (sum(least for least, _ in spans), sum(most for _, most in spans))
    weights = [_weight(window) for window in busy]
    return LogCounts(
        counts,
        _length(busy, weights),
        _positions(busy, weights),
        len(listed),
        len(listed) - len(busy),
        drafts_span,
        _length_span(busy, drafts_span),
        _position_spans(busy, counts),
        _remarks(busy),
    )


def _quoted(text: str) -> str:
    said = log_forms.COLOURS.sub("", text).strip()
    return said if len(said) <= QUOTED else said[:QUOTED] + "…"


def _once(found: list[Window]) -> Iterable[Window]:
    """Windows that were counted once: of running totals, the last before the next start.

    llama.cpp prints both; its totals say nothing that its requests do not.
    """
    requests = any(one.program == "llama.cpp" and not one.running for one in found)
    last: dict[str, Window] = {}
    for window in found:
        if not window.running:
            yield window
        elif window.program != "llama.cpp" or not requests:
            before = last.get(window.source)
            if before is not None and _restarted(before, window):
                yield before
            last[window.source] = window
    yield from last.values()


def _restarted(before: Window, after: Window) -> bool:
    return after.drafted < before.drafted or after.accepted < before.accepted


def _check_one_server(busy: Sequence[Window]) -> None:
    programs = sorted({window.program for window in busy})
    if len(programs) > 1:
        raise Mixed(f"lines of {' and of '.join(programs)} are in it: give each program's log")
    each = sorted({one.each for one in busy if one.each})
    if len(each) > 1:
        tokens = " and of ".join(map(str, each))
        raise Mixed(
            f"lines of {tokens} draft tokens are in it, of several servers or starts: "
            "give each one's log"
        )


def _counts(window: Window) -> Counts:
    drafts = window.drafts
    at = [] if drafts is None else [round((rate or 0.0) * drafts) for rate in _over_drafts(window)]
    return Counts(drafts, window.drafted, window.accepted, tuple(at))


def _over_drafts(window: Window) -> tuple[float | None, ...]:
    return window.positions if window.rates_of == "drafts" else ()


def _weight(window: Window) -> float | None:
    """A window's drafts, as closely as its line tells.

    A drafter of fixed length proposes as many tokens as there are positions each time; where that
    contradicts the printed length, the length decides.
    """
    least, most = window.drafts_span
    if window.drafts is not None:
        return float(window.drafts)
    if window.each and window.length is not None:
        return max(float(least), min(float(most), window.drafted / window.each))
    if window.length is not None and window.length > 1:
        return max(float(least), min(float(most), window.accepted / (window.length - 1)))
    return None


def _length(busy: list[Window], weights: list[float | None]) -> float | None:
    if len(busy) == 1:
        return busy[0].length
    if any(weight is None for weight in weights):
        return None
    drafts = sum(weight or 0.0 for weight in weights)
    if all(window.emitted is not None for window in busy):
        return sum(window.emitted or 0 for window in busy) / drafts
    return 1 + sum(window.accepted for window in busy) / drafts


def _length_span(busy: list[Window], drafts: tuple[int, int]) -> Span | None:
    if len(busy) == 1:
        return busy[0].length_span
    least, most = drafts
    if all(window.emitted is not None for window in busy):
        emitted = sum(window.emitted or 0 for window in busy)
        return max(1.0, emitted / most), emitted / least
    accepted = sum(window.accepted for window in busy)
    return 1 + accepted / most, 1 + accepted / least


def _positions(busy: list[Window], weights: list[float | None]) -> tuple[float | None, ...]:
    if len(busy) == 1:
        return _over_drafts(busy[0])
    width = max(len(_over_drafts(window)) for window in busy)
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
    rates = _over_drafts(window)
    if not rates:
        return None
    printed = rates[position] if position < len(rates) else 0.0
    if printed is None or not window.drafts:
        return printed
    return round(printed * window.drafts) / window.drafts


def _position_spans(busy: list[Window], counts: Counts) -> tuple[Span | None, ...]:
    """A rate of all windows lies between those of each; exact where the drafts are known."""
    if counts.drafts is not None or not all(_over_drafts(window) for window in busy):
        return ()
    width = max(len(window.positions) for window in busy)
    spans: list[Span | None] = []
    for position in range(width):
        rates = [_rate(window, position) for window in busy]
        known = [rate for rate in rates if rate is not None]
        complete = len(known) == len(rates)
        spans.append(
            (max(0.0, min(known) - RATE_ROUNDED), min(1.0, max(known) + RATE_ROUNDED))
            if complete
            else None
        )
    return tuple(spans)


def _remarks(busy: list[Window]) -> tuple[str, ...]:
    said = []
    if any(window.rates_of == "drafted" for window in busy):
        said.append(OVER_DRAFTED)
    if any(window.emitted is not None for window in busy):
        said.append(V0_ACCEPTED)
    return tuple(said)
