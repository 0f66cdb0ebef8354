"""One normaliser for the lines of every log: prefixes off, severity and process known, indentation
kept. Pure; each line costs its length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deployctl.vllm.logs import prefixes

MOST = 16_384
"""Characters of a line that are looked at: what is longer is not a message of a logger."""
FIRST, LAST = 20_000, 200_000
"""Lines of a log that are read: of more, the middle is left out."""
ROUNDS = 12
SPLIT = 16 << 10
"""Docker cuts longer lines into several JSON lines."""
_ENDS = re.compile(r"\r\n|\n|\r")
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "text")
_LEVEL_KEYS = ("levelname", "level", "severity", "lvl")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a log.

    `text` is what the program printed, `raw` how it stands in the file. `severity` is debug, info,
    warning, error, fatal, or empty where no logger of the server says one; `outer` is what a
    collector calls it. `record` is equal for the lines of one log record. `system` names a library
    that writes for itself (nccl).
    """

    text: str
    raw: str
    severity: str = ""
    outer: str = ""
    process: str = ""
    pid: int | None = None
    record: str = ""
    system: str = ""

    @property
    def stream(self) -> tuple[str, int | None]:
        """Which process wrote it, as far as it is known."""
        return self.process, self.pid


def read(text: str) -> list[Line]:
    """Every line of a log, in order."""
    pieces = _ENDS.split(text)
    if len(pieces) > FIRST + LAST:
        pieces = [*pieces[:FIRST], *pieces[-LAST:]]
    return list(_without_unknown(_joined(_lines(pieces))))


def parse(raw: str) -> Line:
    """One line by itself; of a line that carries several, the last."""
    lines = list(_lines([raw]))
    return lines[-1][0] if lines else Line("", raw)


def bare(line: str) -> str:
    """A log line without the process and logger that stand before it."""
    return parse(line).text


def _lines(pieces: Iterable[str]) -> Iterator[tuple[Line, bool]]:
    """Lines, and whether each goes on in the next one of its kind."""
    blank = 0
    for raw in pieces:
        blank = 0 if raw.strip() else blank + 1
        if blank > 2:
            continue
        if raw[:1] == "{" or raw[:64].lstrip()[:1] == "{":
            inner = _unpack(raw)
            if inner is not None:
                yield from inner
                continue
        partial = " P " in raw[:60] and re.match(r"\S{10,40} (?:stdout|stderr) P ", raw) is not None
        for line in _glued(_plain(raw)):
            yield line, partial


def _plain(raw: str) -> Line:
    """A line without its prefixes."""
    if not raw.strip():
        return Line("", raw)
    text = raw[:MOST]
    if "\x1b" in text or "[" in text or "\x9b" in text:
        text = prefixes.ESCAPES.sub("", text)
    text = prefixes.CONTROLS.sub("", text).rstrip()
    if text[:1] in "\u2502\u2503" or text[-1:] in "\u2502\u2503":
        text = prefixes.BORDERS.sub("", text).rstrip()
    return _Reader(text, raw).line()


class _Reader:
    """Takes prefixes off one line until none is left."""

    def __init__(self, text: str, raw: str) -> None:
        self.text, self.raw = text, raw
        self.at = 0
        self.severity = self.outer = self.process = self.record = self.system = ""
        self.pid: int | None = None
        self.timed = False

    def line(self) -> Line:
        for _ in range(ROUNDS):
            if self._server() or not (self._process() or self._around()):
                break
        text = (
            prefixes.REPEATED.sub("", self.text[self.at :])
            if self.process
            else (self.text[self.at :])
        )
        return Line(
            text,
            self.raw,
            self.severity,
            self.outer,
            self.process,
            self.pid,
            self.record,
            self.system,
        )

    def _server(self) -> bool:
        """A header after which the message begins."""
        found = prefixes.VLLM.match(self.text, self.at)
        if found:
            self.severity = prefixes.LEVELS[found["level"]]
            self.record = found[0]
            self.at = found.end()
            return True
        if "NCCL " in self.text[self.at : self.at + 400]:
            found = prefixes.NCCL.match(self.text, self.at)
            if found:
                self.system, self.at = "nccl", found.end()
                self.severity = "warning" if found["nccl"] in ("WARN", "ERROR") else "info"
                self.pid = int(found["pid"]) if found["pid"] else self.pid
                return True
        return False

    def _process(self) -> bool:
        found = prefixes.PROCESS.match(self.text, self.at)
        if not found:
            return False
        pid = prefixes.PID.search(found[0])
        self.process = found["process"] or found["ray"] or self.process or found["rank"] or ""
        self.pid = int(pid[1]) if pid else self.pid
        self.at = found.end()
        return True

    def _around(self) -> bool:
        """Anything else that stands before a message."""
        head = self.text[self.at : self.at + 1]
        if head == "" or head == " ":
            return False
        found = prefixes.UVICORN.match(self.text, self.at)
        if found:
            self.severity = self.severity or prefixes.LEVELS[found["level"]]
            self.at = found.end()
            return self.text[self.at : self.at + 1] == "("
        found = prefixes.C10.match(self.text, self.at)
        if found:
            self.severity = prefixes.LETTERS[found["letter"] or found["glog"]]
            self.at = found.end()
            self.system = "c10"
            return True
        found = prefixes.PLAIN.match(self.text, self.at)
        if found and found.end() > self.at:
            self.timed = True
            self.at = found.end()
            return True
        if not prefixes.SAYS_LEVEL.search(self.text, self.at, self.at + 300):
            return False
        for pattern in prefixes.OUTER:
            found = pattern.match(self.text, self.at)
            if found:
                return self._outer(found)
        if self.timed and not self.outer:
            found = prefixes.AFTER_TIME.match(self.text, self.at)
            return self._outer(found) if found else False
        return False

    def _outer(self, found: re.Match[str]) -> bool:
        self.outer = prefixes.LEVELS[found["level"]]
        self.at = found.end()
        return True


def _glued(line: Line) -> Iterator[Line]:
    """A logger's header in the middle of a line begins another: what stands before it is a progress
    bar without a newline, or the prefix of a collector that is not known."""
    if line.record or line.system or "]" not in line.text:
        yield line
        return
    head = line.text[:2000]
    found = prefixes.GLUED.search(head)
    if not found or found.start() == 0:
        yield line
        return
    before = line.text[: found.start()]
    if "%|" in before or "it/s]" in before or "s/it]" in before:
        yield replace(line, text=before)
        yield _Reader(line.text[found.start() :], line.raw).line()
    elif len(before) <= 120:
        inner = _Reader(line.text[found.start() :], line.raw).line()
        yield replace(inner, outer=f"prefix {before}")
    else:
        yield line


def _without_unknown(lines: Iterable[Line]) -> Iterator[Line]:
    """Take a prefix that is not known, and was found before a logger's header, off all lines."""
    known: list[str] = []
    for line in lines:
        if line.outer.startswith("prefix "):
            prefix = line.outer[len("prefix ") :]
            if prefix not in known and len(known) < 8:
                known.append(prefix)
            yield replace(line, outer="")
            continue
        prefix = next((p for p in known if line.text.startswith(p)), "")
        if prefix:
            inner = _Reader(line.text[len(prefix) :], line.raw).line()
            yield replace(inner, severity=inner.severity or line.severity)
        else:
            yield line


def _joined(lines: Iterable[tuple[Line, bool]]) -> Iterator[Line]:
    """Lines that a collector cut, put together again."""
    held: Line | None = None
    for line, partial in lines:
        if held is not None:
            line = replace(held, text=(held.text + line.text)[:MOST])
            held = None
        if partial:
            held = line
        else:
            yield line
    if held is not None:
        yield held


def _unpack(raw: str) -> list[tuple[Line, bool]] | None:
    """The lines inside a line of JSON; None where it is not a log record."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    key = next((key for key in _MESSAGES if isinstance(record.get(key), str)), None)
    if key is None:
        return None
    words = str(record[key])
    for more in ("exc_info", "stack_info", "stack"):
        if isinstance(record.get(more), str):
            words = f"{words}\n{record[more]}"
    docker = key == "log" and "stream" in record
    partial = docker and not words.endswith("\n") and len(words) >= SPLIT
    inner = [
        _from_record(line, raw, record)
        for piece in _ENDS.split(words.removesuffix("\n"))
        for line in _glued(_plain(piece))
    ]
    return [(line, partial and line is inner[-1]) for line in inner]


def _from_record(line: Line, raw: str, record: Mapping[str, Any]) -> Line:
    """A line with what its record says about severity and process, where the line says nothing."""
    level = next((str(record[key]).upper() for key in _LEVEL_KEYS if key in record), "")
    severity = prefixes.LEVELS.get(level, "")
    name = record.get("processName")
    pid = record.get("process", record.get("pid"))
    own = isinstance(name, str)
    return replace(
        line,
        raw=raw,
        severity=line.severity or (severity if own else ""),
        outer=line.outer or severity,
        process=line.process or (str(name) if own else ""),
        pid=line.pid if line.pid is not None or not isinstance(pid, int) else pid,
        record=line.record or (raw[:80] if own else ""),
    )
