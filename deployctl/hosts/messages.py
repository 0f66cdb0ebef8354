"""Reads what an agent says, and refuses what no agent says."""

from __future__ import annotations

import json
import re
from typing import Any

from deployctl.agent.wire.messages import FROM_AGENT
from deployctl.hosts.shapes import mismatch

Message = dict[str, Any]
DIGITS = 40
"""Of an integer: more than any number of a host has, fewer than take long to read."""


MOST_PARTS = 4_000_000
"""Of a line: each element costs memory by the score of its bytes."""


class Unreadable(Exception):
    """A line that is not a message; says why."""


def read(line: bytes) -> tuple[str, Message]:
    """A message and the key that names its kind; raises `Unreadable`."""
    if sum(map(line.count, (b",", b"[", b"{"))) > MOST_PARTS:
        raise Unreadable(f"it has more than {MOST_PARTS} parts")
    try:
        message = json.loads(line, parse_int=_integer)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    kinds = FROM_AGENT.keys() & message.keys() if isinstance(message, dict) else ()
    if len(kinds) != 1:
        raise Unreadable("it is not a message of an agent")
    (kind,) = kinds
    wrong = mismatch(message, FROM_AGENT[kind])
    if wrong:
        raise Unreadable(f"{kind}: {wrong}")
    return kind, message


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def shown(line: bytes | bytearray) -> str:
    """The beginning of a line, for people."""
    return re.sub(r"[^\x20-\x7e]", "?", line[:120].decode("ascii", "replace"))
