"""Why a build failed, from its log: what failed, its first error, and what is known about it. Pure.

A log carries the output of many programs (uv, pip, git, CMake, ninja, nvcc, cargo, setuptools),
indented by those that called them. What a later stage reached is not a cause: a fetch that
stumbled before sources were compiled did not end the build.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from deployctl.vllm.logs import causes
from deployctl.vllm.logs.causes.build_fetch import CAUSES as FETCHING
from deployctl.vllm.logs.causes.cause import Cause
from deployctl.vllm.logs.explanation import KEPT, SHOWN, Explanation
from deployctl.vllm.logs.lines import Line, read

BEFORE, AFTER = 2, 9
"""Lines around the first error that are shown."""
HEAD, TAIL = 100_000, 300_000
"""Characters that are searched, of the lines that may say anything."""
LONGEST = 2_000
FAILED = "a build step failed"

_CHAIN = re.compile(r"\s{0,80}(?:Caused by:|cause:|[\u251c\u2570]\u2500\u25b6)")
_FRAME = re.compile(r'\s{0,80}File "[^"]{0,1000}", line \d')
_COMMAND = re.compile(r"\$ \S")
_NOISE = re.compile(
    r"\s{0,80}(?:\[\s{0,3}\d{1,6}/\d{1,6}\]|\[\s{0,3}\d{1,3}%\]|-- |copying |creating |writing "
    r"|adding |"
    r"running |reading |removing |Receiving objects:|Resolving deltas:|Counting objects:"
    r"|Compressing "
    r"objects:|Updating files:|remote: (?:Enumerating|Counting|Compressing|Total)|Collecting "
    r"|Using "
    r"cached |Downloading |Requirement already|#\$ |DEBUG |TRACE )"
)
_COMPILING = re.compile(
    r"\s{0,80}(?:/|\S{0,20} /)?\S{0,200}(?:nvcc|g\+\+|gcc|c\+\+|cc|clang|ccache"
    r"|sccache)\S{0,10} .{0,4000} -[cDIo]"
)
_WARNING = re.compile(
    r"\s{0,80}(?:WARNING\b|warning\b|WARN |CMake (?:Deprecation )?Warning|note: |hint: |help: |"
    r"npm warn)|.{0,600}(?:: warning(?: #|:)|: note: |: remark: )"
)
_LAST_TRY = re.compile(r".{0,80}Retrying \(Retry\(total=0")
_CMAKE_WARNING = re.compile(r"(\s{0,80})CMake (?:Deprecation )?Warning")
_COMPILES = re.compile(
    r"\s{0,80}(?:\[\s{0,3}\d{1,6}/\d{1,6}\]|\[\s{0,3}\d{1,3}%\]) (?:Building|Linking) "
    r"|\s{0,80}Compiling \S{1,80} v\d|\s{0,80}building '\S{1,100}' extension"
)
_FIRST = re.compile(
    r"\berror\b[:\[]|^\s*error\b|^\s*FAILED: |\bfatal\b|^\s*\u00d7|^\s*CMake Error"
    r"|\bundefined symbol\b"
    r"|No space left|\(os error|^\s*[\w.]{1,80}(?:Error|Exception): |^refused: |^the hunk"
    r"|Traceback \(most recent|^\s*Killed$",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"\s{0,80}(?:error: subprocess-exited-with-error|ERROR: Failed building|error: "
    r"metadata-generation-failed)"
)


def explain(text: str, known: Sequence[Cause] = causes.BUILD) -> Explanation:
    """The cause of a failed build, empty where none is known, and its first error.

    Only what the last command (`$ …`) printed counts.
    """
    lines = _last_command(read(text))
    spoken = _spoken(lines)
    compiles = max((at for at, line in enumerate(lines) if _COMPILES.match(line.text)), default=-1)
    first = next((at for at in spoken if _FIRST.search(lines[at].text[:LONGEST])), None)
    hit = _hit(lines, spoken, compiles, known)
    if hit is not None:
        cause, found, at = hit
        begin = at if first is None else min(at, first)
        clean, raw = _shown(lines, begin, at)
        return Explanation(
            cause.id, cause.words(cause.sentence, found), cause.words(cause.next, found), clean, raw
        )
    if first is None:
        return Explanation("", FAILED, "read the whole log on the host", *_end(lines))
    clean, raw = _shown(lines, first, _telling(lines, spoken, first))
    return Explanation("", FAILED, "read the whole log on the host", clean, raw)


def _last_command(lines: list[Line]) -> list[Line]:
    last = max((n for n, line in enumerate(lines) if _COMMAND.match(line.text)), default=-1)
    return lines[last + 1 :]


def _spoken(lines: Sequence[Line]) -> list[int]:
    """The lines that may say why: no progress, no commands, no warnings."""
    kept: list[int] = []
    warned: int | None = None
    quoted = _quoted(lines)
    for at, line in enumerate(lines):
        text = line.text
        if not text.strip() or at in quoted:
            continue
        indent = len(text) - len(text.lstrip())
        if warned is not None and indent > warned:
            continue
        block = _CMAKE_WARNING.match(text)
        warned = len(block[1]) if block else None
        if not block and not _says_nothing(line):
            kept.append(at)
    return _bounded(lines, kept)


def _bounded(lines: Sequence[Line], kept: Sequence[int]) -> list[int]:
    """The first and the last of many lines."""
    sizes = [min(len(lines[at].text), LONGEST) + 1 for at in kept]
    if sum(sizes) <= HEAD + TAIL:
        return list(kept)
    head = sum(1 for size in itertools.accumulate(sizes) if size <= HEAD)
    tail = sum(1 for size in itertools.accumulate(reversed(sizes)) if size <= TAIL)
    return [*kept[:head], *kept[max(head, len(kept) - tail) :]]


def _says_nothing(line: Line) -> bool:
    """Progress, commands and warnings; pip's last try is not, for its error does not say why."""
    text = line.text
    if _LAST_TRY.match(text):
        return False
    if line.severity in ("info", "debug", "warning") or _NOISE.match(text) or _WARNING.match(text):
        return True
    return len(text) > 200 and _COMPILING.match(text) is not None


def _quoted(lines: Sequence[Line]) -> set[int]:
    """Lines of source code that tracebacks quote: they show what might be printed, not what was."""
    quoted: set[int] = set()
    deeper = -1
    for at, line in enumerate(lines):
        indent = len(line.text) - len(line.text.lstrip())
        if _FRAME.match(line.text):
            quoted.add(at)
            deeper = indent
        elif 0 <= deeper < indent:
            quoted.add(at)
        else:
            deeper = -1
    return quoted


def _hit(
    lines: Sequence[Line], spoken: Sequence[int], compiles: int, known: Sequence[Cause]
) -> tuple[Cause, re.Match[str], int] | None:
    """The first cause of the table that the log shows, and the place of its line."""
    text = "\n".join(lines[at].text[:LONGEST] for at in spoken)
    late_text, late = text, list(spoken)
    if compiles >= 0:
        late = [at for at in spoken if at > compiles]
        late_text = "\n".join(lines[at].text[:LONGEST] for at in late)
    for cause in known:
        where, places = (late_text, late) if cause in FETCHING else (text, spoken)
        found = cause.pattern.search(where)
        if found:
            start = found.start() + len(found[0]) - len(found[0].lstrip())
            return cause, found, _innermost(lines, places[where.count("\n", 0, start)], cause)
    return None


def _innermost(lines: Sequence[Line], at: int, cause: Cause) -> int:
    """Of a chain of causes (`Caused by:`, `├─▶`), the last that says the same."""
    last = at
    for place in range(at + 1, len(lines)):
        if not _CHAIN.match(lines[place].text):
            break
        if cause.pattern.search(lines[place].text[:LONGEST]):
            last = place
    return last


def _telling(lines: Sequence[Line], spoken: Sequence[int], first: int) -> int:
    """The first error line that says more than that something failed."""
    said = (at for at in spoken if at >= first and not _EMPTY.match(lines[at].text))
    return next((at for at in said if _FIRST.search(lines[at].text[:LONGEST])), first)


def _shown(lines: Sequence[Line], begin: int, at: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines around the first error, and the decisive one; as evidence the decisive one "
    "first."""
    places = [*range(max(0, begin - BEFORE), min(len(lines), begin + AFTER))]
    clean = [lines[place].text[:SHOWN] for place in places]
    if at not in places:
        clean += ["\u2026", lines[at].text[:SHOWN]]
    raw = dict.fromkeys(
        lines[place].raw[:KEPT] for place in (at, *places) if lines[place].text.strip()
    )
    return tuple(clean), tuple(raw)


def _end(lines: Sequence[Line]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    last = [line for line in lines if line.text.strip()][-12:]
    return tuple(line.text[:SHOWN] for line in last), tuple(line.raw[:KEPT] for line in last)
