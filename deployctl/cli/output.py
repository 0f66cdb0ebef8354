"""What commands print: a result on stdout, words about it on stderr. Nothing else prints.

Each line stays one, and no character of others reaches a terminal that is not text: `printable`.

Words that cannot be written never change how a run ended; a question whose answer cannot be
printed has failed.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from deployctl import redaction
from deployctl.errors import DeployError
from deployctl.report import printable


def width() -> int | None:
    """The characters of a line on a terminal; None where stdout is something else."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show(document: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print what was asked for: as one JSON document, or in lines; as `answer` does."""
    if as_json:
        answer_document(document)
    else:
        answer(lines)


def answer(lines: Iterable[str]) -> None:
    """Print what was asked for. Where it cannot be written the command has failed, since there is
    nothing else that it did; raises `DeployError`."""
    _answer(f"{printable.line(line)}\n" for line in lines)


def answer_text(text: str) -> None:
    """Print a text of several lines that was asked for, as `answer` does."""
    _answer([printable.block(text)])


def answer_document(document: Any) -> None:
    """Print a document that was asked for as JSON, as `answer` does."""
    _answer([_json(document) + "\n"])


def _answer(pieces: Iterable[str]) -> None:
    try:
        for piece in pieces:
            print(piece, end="")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up(sys.stdout)
        why = error.strerror or str(error)
        raise DeployError("the answer cannot be printed", why, "write it elsewhere") from error


def _json(document: Any) -> str:
    """A document as `--json` prints it; times and paths in it as their text, as are numbers that
    JSON lacks. Escaped where stdout cannot take its characters as they are."""

    document = redaction.document(document)

    def text(readable: bool) -> str:
        return json.dumps(document, indent=2, default=str, ensure_ascii=not readable)

    try:
        json.dumps(document, default=str, allow_nan=False)
    except ValueError:
        document = _finite(document)
    shown = text(readable=True)
    try:
        shown.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text(readable=False)
    return printable.block(shown)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def prepare() -> None:
    """Characters that a stream cannot take are escaped, and never the end of a command. A stream
    that was closed when we started fails like any other that cannot be written to.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDONLY), "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(lines: Iterable[str]) -> None:
    """Print what a run came to; where that cannot be written (a full disk), it is a warning."""
    _say(map(printable.line, lines))


def say_document(document: Any) -> None:
    """Print what a run came to as JSON, as `say` does."""
    _say([_json(document)])


def _say(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            warn(f"the result cannot be printed: {error.strerror or error}")


def warn(text: str) -> None:
    """A warning on stderr; it is lost where not even that can be written."""
    note(f"warning: {text}")


def note(text: str) -> None:
    """A line on stderr, beside the result."""
    try:
        print(printable.line(text), file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)


def settle() -> None:
    """Flush what is left, so that the exit code is the command's own and not a full disk's."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _give_up(stream)


def _give_up(stream: TextIO) -> None:
    """Let a broken stream lead nowhere: what its buffer holds would fail again at the exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
