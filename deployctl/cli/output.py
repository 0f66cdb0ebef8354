"""What a command says at its end. Words that cannot be written never change how a run ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO


def say(lines: Iterable[str]) -> None:
    """Print a result on stdout; where that cannot be written (a full disk), it is a warning."""
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
