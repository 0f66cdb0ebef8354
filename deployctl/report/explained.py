"""The lines of `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lines(document: Mapping[str, Any]) -> list[str]:
    """Cause, one sentence, the decisive lines, and the next step."""
    shown = [f"{document['kind']} log: {document['cause']}", f"  {document['summary']}"]
    shown += [f"  | {plain(line)}" for line in document["evidence"]]
    return [*shown, f"  next: {document['next']}"]


def plain(line: str) -> str:
    """A line of a log without what could steer a terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line)[:400]
