"""What commands print: a result on stdout, words about it on stderr.

Words that cannot be written never change how a run ended; a question whose answer cannot be
printed has failed.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from deployctl.errors import DeployError


def show(document: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print what was asked for: as one JSON document, or in lines; as `answer` does."""
    answer([as_text(document)] if as_json else lines)


def answer(lines: Iterable[str], end: str = "\n") -> None:
    """Print what was asked for. Where it cannot be written the command has failed, since there is
    nothing else that it did; raises `DeployError`."""
    try:
        for line in lines:
            print(line, end=end)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up(sys.stdout)
        why = error.strerror or str(error)
        raise DeployError("the answer cannot be printed", why, "write it elsewhere") from error


def as_text(document: Any) -> str:
    """A document as `--json` prints it; times and paths in it as their text, as are numbers that
    JSON lacks. Escaped where stdout cannot take its characters as they are."""

    def text(readable: bool) -> str:
        return json.dumps(document, indent=2, default=str, ensure_ascii=not readable)

    try:
        json.dumps(document, default=str, allow_nan=False)
    except ValueError:
        document = _finite(document)
    try:
        text(readable=True).encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return text(readable=False)
    return text(readable=True)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def prepare() -> None:
    """Characters that a stream cannot take are escaped, and never the end of a command. A stream
    that was closed when we started fails like any other that nobody can write to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDONLY), "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(lines: Iterable[str]) -> None:
    """Print what a run came to; where that cannot be written (a full disk), it is a warning."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            warn(f"the result cannot be printed: {error.strerror or error}")


def warn(text: str) -> None:
    """A warning on stderr; nobody is told where not even that can be written."""
    note(f"warning: {text}")


def note(text: str) -> None:
    """A line on stderr, beside the result."""
    try:
        print(text, file=sys.stderr, flush=True)
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
