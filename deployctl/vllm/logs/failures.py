"""The failures in a log: tracebacks and error lines of each process, in order. Pure.

Python prints a traceback as `Traceback (most recent call last):`, frames, and one line
`Type: message`, which may go on over several lines; chained exceptions follow each other behind a
sentence (library reference, module traceback). Processes write at the same time, so each is
followed by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deployctl.vllm.logs import phases
from deployctl.vllm.logs.lines import Line

MESSAGE = 80
"""Lines of one exception's message that are kept."""
SHOWN = 400
"""Characters of a line that are shown."""

_HEADER = "Traceback (most recent call last)"
_CHAINED = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)
_FRAME = re.compile(
    r'\s{0,80}File "[^"]{0,1000}", line \d{1,9}(?:, in (?P<function>[\w.<>]{1,200}))?'
)
_NAME = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,300})(?:\([\w.]{1,80}\))?(?::(?: |$)|$)")
_SUFFIXES = (
    "Error",
    "Exception",
    "Exit",
    "Interrupt",
    "Timeout",
    "Failure",
    "Empty",
    "Full",
    "Closed",
    "Terminated",
    "Died",
    "NotFound",
    "RayTaskError",
)
_GROUP = re.compile(r"\s{0,80}[|+](?: |-+|$)")
_STOPS = re.compile(
    r"Process \S{1,80}:$|Exception (?:ignored|in thread)|nanobind: |!{3,}|Fatal Python error"
    r"|terminate called|.{0,300}(?:UserWarning|resource_tracker|warnings\.warn)"
)


@dataclass
class Raised:
    """One exception: its type, and its lines in the log, the first of which names it."""

    type: str
    at: list[int]
    words: list[str]

    def text(self) -> str:
        """Its message as it was printed."""
        return "\n".join(self.words)


@dataclass
class Failure:
    """One traceback with all that is chained to it, or an error line by itself.

    `title` is what the process printed before it, `functions` are the frames' names. `severity` is
    that of the logger, empty for what Python itself printed.
    """

    first: int
    process: str
    pid: int | None
    severity: str
    title: str = ""
    raised: list[Raised] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    record: str = ""
    phase: str = ""

    def text(self) -> str:
        """What all its exceptions say."""
        return "\n".join(exception.text() for exception in self.raised)


def find(lines: Sequence[Line]) -> list[Failure]:
    """Every failure of every process, by the place of its first line."""
    followers: dict[tuple[str, int | None], _Follower] = {}
    found: list[Failure] = []
    marks: list[tuple[int, str]] = []
    for index, line in enumerate(lines):
        if line.system:
            continue
        follower = followers.get(line.stream)
        if follower is None:
            follower = followers[line.stream] = _Follower(found)
        follower.feed(index, line)
        if line.severity in ("", "info"):
            marks += [(index, name) for name in phases.memory_of(line.text)]
    found = sorted((failure for failure in found if failure.raised), key=lambda each: each.first)
    for failure in found:
        failure.phase = _phase(failure, marks)
    return found


def named(text: str) -> str:
    """The type of the exception that a line names, empty where it names none."""
    name = _any(text)
    known = name.endswith(_SUFFIXES) and name != "Error" and not name.startswith("nccl")
    return name if known else ""


def _any(text: str) -> str:
    found = _NAME.match(text)
    return found["type"] if found else ""


def _phase(failure: Failure, marks: Iterable[tuple[int, str]]) -> str:
    """What memory was taken for: by the functions on the stack, else by the lines before."""
    names = set(failure.functions)
    before = ""
    for index, name in marks:
        if index > failure.first:
            break
        before = name
    for name, functions in phases.FRAMES:
        if names & functions:
            return name
    return before


class _Follower:
    """Reads one process's lines."""

    def __init__(self, found: list[Failure]) -> None:
        self.found = found
        self.open: Failure | None = None
        self.state = ""
        self.indent = 0
        self.deeper = self.group = False
        self.before: tuple[int, Line] | None = None

    def feed(self, index: int, line: Line) -> None:
        text = _GROUP.sub("", line.text, count=1) if self.group else line.text
        if _HEADER in text:
            self._begin(index, line, text)
        elif self.open is None or not self._goes_on(line):
            self._start_bare(index, line, text)
        elif self.state == "frames":
            self._frame(index, line, text)
        elif any(sentence in text for sentence in _CHAINED):
            self.state = "chained"
        elif self.state == "chained":
            if text.strip():
                self._chained(index, line, text)
        else:
            self._message(index, line, text)
        self.before = (index, line)

    def _goes_on(self, line: Line) -> bool:
        """Whether a line can belong to what is open: a record of its own cannot."""
        assert self.open is not None
        if self.open.record:
            return line.record == self.open.record
        return not line.record and (not line.severity or line.severity == self.open.severity)

    def _begin(self, index: int, line: Line, text: str) -> None:
        chained = self.open is not None and self.state == "chained" and self._goes_on(line)
        if not chained:
            self._open(index, line)
        before = text.split(_HEADER)[0]
        self.group = self.group or "Exception Group" in before
        if before.strip(" +|") and self.open is not None and not chained:
            self.open.title = before.strip()
        self.indent = len(before) if not before.strip() else 0
        self.state, self.deeper = "frames", False

    def _open(self, index: int, line: Line) -> None:
        self.group = False
        self.open = Failure(
            index,
            line.process,
            line.pid,
            line.severity,
            self._title(index, line),
            record=line.record,
        )
        self.found.append(self.open)

    def _title(self, index: int, line: Line) -> str:
        if self.before is None:
            return ""
        at, before = self.before
        near = (
            before.record == line.record if line.record else at == index - 1 and not before.record
        )
        return before.text.strip() if near else ""

    def _frame(self, index: int, line: Line, text: str) -> None:
        assert self.open is not None
        frame = _FRAME.match(text)
        if frame:
            self.deeper = self.deeper or len(text) - len(text.lstrip()) > self.indent
            self.open.functions.append(frame["function"] or "")
            return
        at_margin = text[: self.indent].strip() == "" and text[self.indent : self.indent + 1] != " "
        words = text[self.indent :] if at_margin else ""
        kind = named(words) or (_any(words) if self.deeper else "")
        if kind:
            self._raise(index, kind, words)

    def _raise(self, index: int, kind: str, words: str) -> None:
        assert self.open is not None
        self.open.raised.append(Raised(kind, [index], [words]))
        self.state = "message"

    def _chained(self, index: int, line: Line, text: str) -> None:
        kind = named(text.strip())
        if kind:
            self._raise(index, kind, text.strip())
        else:
            self.open = None
            self._start_bare(index, line, text)

    def _message(self, index: int, line: Line, text: str) -> None:
        assert self.open is not None
        words = text[self.indent :] if text[: self.indent].strip() == "" else text
        last = self.open.raised[-1]
        kind = named(words)
        if kind:
            self._raise(index, kind, words)
        elif _STOPS.match(words) or (not words and not last.words[-1]) or len(last.at) >= MESSAGE:
            self.open = None
        else:
            last.at.append(index)
            last.words.append(words)

    def _start_bare(self, index: int, line: Line, text: str) -> None:
        """An exception's line without a traceback: people cut logs, and so do loggers."""
        kind = named(text) if line.severity in ("", "error", "fatal") else ""
        if kind:
            self._open(index, line)
            self.indent = 0
            self._raise(index, kind, text)
        elif line.record or not (self.open and self.open.record):
            # What another program prints between the lines of one record ends nothing.
            self.open = None
