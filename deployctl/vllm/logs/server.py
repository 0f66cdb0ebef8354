"""Why a vLLM did not start or died, from its log. Pure.

The first error that ended a process decides; what only reports it ("Engine core initialization
failed") comes last. Warnings, INFO lines and phases that were left explain nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deployctl.vllm.logs import causes, ends, failures
from deployctl.vllm.logs.causes.cause import Cause
from deployctl.vllm.logs.explanation import KEPT, SHOWN, Explanation
from deployctl.vllm.logs.failures import Failure, Raised
from deployctl.vllm.logs.lines import Line, read

WINDOW = 400
"""Lines of other output within which a library's own line explains an exception after it."""
LINES = 6
"""Decisive lines of a known cause."""
WHOLE = 24
"""Lines of an exception that is not known."""
ONE_START = 60
"""Lines between two banners of one start."""

_START = re.compile(r"vLLM API server version|non-default args:")
_NCCL = re.compile(r"NCCL|nccl")
_LINE_CAUSES = tuple(each for each in causes.SERVER if each.on == "line")


@functools.cache
def _any_line() -> re.Pattern[str]:
    """Any of the causes of single lines."""
    parts = [re.sub(r"\(\?P<\w+>", "(?:", each.regex) for each in _LINE_CAUSES]
    return re.compile("|".join(parts), re.MULTILINE)


@dataclass
class _Found:
    """What may have ended the server: a failure, or a line of a known cause by itself."""

    index: int
    failure: Failure | None = None
    known: tuple[Cause, re.Match[str]] | None = None


def explain(text: str, known: Sequence[Cause] = causes.SERVER) -> Explanation:
    """What a server's log says about its end; of several starts in it, about the last that
    failed."""
    lines = read(text)
    for start in reversed(_starts(lines)):
        explained = _explain(start, known)
        if explained is not None:
            return explained
    return Explanation("", "", "", ())


def _starts(lines: list[Line]) -> list[list[Line]]:
    """The log of each start: supervisors and containers write several into one file."""
    begins = [0]
    last = -ONE_START
    for index, line in enumerate(lines):
        if line.severity == "info" and _START.search(line.text):
            if index - last > ONE_START and index > 0:
                begins.append(index)
            last = index
    return [lines[a:b] for a, b in zip(begins, [*begins[1:], len(lines)], strict=True)]


def _explain(lines: list[Line], known: Sequence[Cause]) -> Explanation | None:
    found = failures.find(lines)
    progress = ends.progress(lines)
    fatal = [each for each in found if not ends.goes_on(each, progress)]
    chosen = _first(lines, fatal, known)
    if chosen is None:
        return _library_alone(lines, known, progress)
    if chosen.failure is None:
        assert chosen.known is not None
        return _told(lines, *chosen.known, [(lines[chosen.index].text, chosen.index)])
    return _from_failure(lines, chosen.failure, known)


def _first(
    lines: Sequence[Line], fatal: Sequence[Failure], known: Sequence[Cause]
) -> _Found | None:
    """The first that ended a process; what only reports another's end comes after all others."""
    own = [each for each in fatal if not ends.only(each, ends.WRAPPERS)]
    first = [each for each in own if not ends.only(each, ends.CONSEQUENCES)]
    sure = next(_surely(first, known), None)
    candidates = [] if sure is None else [_Found(sure.first, sure)]
    lone = next(_lone_lines(lines, fatal), None)
    candidates += [] if lone is None else [lone]
    if candidates:
        return min(candidates, key=lambda each: each.index)
    rest = own or [each for each in fatal if _match(known, ends.wrapped(each), each.phase)] or fatal
    return _Found(rest[0].first, rest[0]) if rest else None


def _surely(found: Sequence[Failure], known: Sequence[Cause]) -> Iterator[Failure]:
    """Failures of which nothing says that their process went on: an error that was logged under
    another title, before what certainly ended the same process, counts only if it is known."""
    last = {(each.process, each.pid): each for each in found if not ends.doubtful(each)}
    for failure in found:
        end = last.get((failure.process, failure.pid))
        ended_later = end is not None and end.first > failure.first
        if (
            not ends.doubtful(failure)
            or not ended_later
            or _match(known, failure.text(), failure.phase)
        ):
            yield failure


def _lone_lines(lines: Sequence[Line], fatal: Sequence[Failure]) -> Iterator[_Found]:
    """Lines of known causes that are no exceptions: a shell's, a kernel's, an option parser's."""
    inside = {at for each in fatal for raised in each.raised for at in raised.at}
    for index, line in enumerate(lines):
        if line.system == "nccl" or line.severity not in ("", "error", "fatal") or index in inside:
            continue
        if _any_line().search(line.text):
            hit = _match(_LINE_CAUSES, line.text, "")
            if hit:
                yield _Found(index, known=hit)


def _match(
    known: Iterable[Cause], text: str, phase: str, on: str = ""
) -> tuple[Cause, re.Match[str]] | None:
    """The first cause whose words are in a text."""
    for each in known:
        if (each.on == "nccl") != (on == "nccl") or (each.phase and each.phase != phase):
            continue
        found = each.pattern.search(text)
        if found:
            return each, found
    return None


def _from_failure(lines: Sequence[Line], failure: Failure, known: Sequence[Cause]) -> Explanation:
    words = _words(failure)
    text = "\n".join(each for each, _ in words)
    library = _library(lines, failure, known) if _NCCL.search(text) else None
    if library is not None:
        index, (cause, found) = library
        return _told(lines, cause, found, [(lines[index].text, index), *_named(failure)])
    hit = _match(known, text, failure.phase)
    if hit is not None:
        last = text.count("\n", 0, max(hit[1].start(), hit[1].end() - 1))
        return _told(lines, *hit, [words[last], *_named(failure)])
    hit = _match(known, ends.wrapped(failure), failure.phase) or _match_near(lines, failure)
    return _told(lines, *hit, _named(failure)) if hit else _unknown(lines, failure)


def _words(failure: Failure) -> list[tuple[str, int]]:
    """What its exceptions say, line by line, with the place of each."""
    return [
        each
        for raised in failure.raised
        for each in (
            _fields(raised)
            if raised.type.endswith("ValidationError")
            else zip(raised.words, raised.at, strict=True)
        )
    ]


def _named(failure: Failure) -> list[tuple[str, int]]:
    """The lines that name its exceptions, without reports of another's."""
    return [
        (raised.words[0], raised.at[0])
        for raised in failure.raised
        if not ends.WRAPPERS.search(raised.words[0]) and not raised.type.endswith("ValidationError")
    ]


def _fields(raised: Raised) -> list[tuple[str, int]]:
    """The lines of a pydantic error: a field and the indented sentence under it are one."""
    folded: list[tuple[str, int]] = []
    for words, at in zip(raised.words, raised.at, strict=True):
        if "For further information visit" in words:
            continue
        if words.startswith("  ") and len(folded) > 1 and folded[-1][1] == at - 1:
            field, _ = folded.pop()
            folded.append((f"{field}: {words.strip()}", at))
        else:
            folded.append((words.strip(), at))
    return folded


def _match_near(lines: Sequence[Line], failure: Failure) -> tuple[Cause, re.Match[str]] | None:
    """What another program printed just before an exception that only says that it failed."""
    if not any("CalledProcessError" in raised.type for raised in failure.raised):
        return None
    begin = max(0, failure.first - WINDOW)
    for line in reversed(lines[begin : failure.raised[-1].at[-1] + 1]):
        if not line.record and _any_line().search(line.text):
            return _match(_LINE_CAUSES, line.text, "")
    return None


def _library(
    lines: Sequence[Line], failure: Failure, known: Sequence[Cause]
) -> tuple[int, tuple[Cause, re.Match[str]]] | None:
    """NCCL's own warning before an exception of the same process."""
    begin = max(0, failure.first - WINDOW)
    for index in range(begin, failure.raised[-1].at[-1]):
        line = lines[index]
        if line.system != "nccl" or line.severity != "warning":
            continue
        if line.pid is None or failure.pid is None or line.pid == failure.pid:
            hit = _match(known, line.text, "", on="nccl")
            if hit:
                return index, hit
    return None


def _library_alone(
    lines: Sequence[Line], known: Sequence[Cause], progress: ends.Progress
) -> Explanation | None:
    """A library's warning at the end of a log that was cut off there."""
    for index, line in enumerate(lines):
        if line.system == "nccl" and line.severity == "warning":
            hit = _match(known, line.text, "", on="nccl")
            if hit and index > max(progress.values(), default=-1):
                return _told(lines, *hit, [(line.text, index)])
    return None


def _told(
    lines: Sequence[Line], cause: Cause, found: re.Match[str], words: Iterable[tuple[str, int]]
) -> Explanation:
    return Explanation(
        cause.id,
        cause.words(cause.sentence, found),
        cause.words(cause.next, found),
        *_shown(lines, list(words)[:LINES]),
    )


def _shown(
    lines: Sequence[Line], words: Iterable[tuple[str, int]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Decisive lines for people, and as they stand in the file."""
    chosen = list(words)
    clean = dict.fromkeys(text.strip()[:SHOWN] for text, _ in chosen)
    raw = dict.fromkeys(lines[at].raw.strip()[:KEPT] for _, at in chosen)
    return tuple(clean), tuple(raw)


def _unknown(lines: Sequence[Line], failure: Failure) -> Explanation:
    """The last exception that does not report another's, whole."""
    own = [raised for raised in failure.raised if not ends.WRAPPERS.search(raised.words[0])]
    last = (own or failure.raised)[-1]
    words = list(zip(last.words, last.at, strict=True))
    return Explanation("", "", "", *_shown(lines, words[:WHOLE]))
