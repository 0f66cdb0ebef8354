"""Logs that people reported, as blocks of a text file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).parents[3] / "cases"


@dataclass(frozen=True)
class Report:
    """One log, the report it is from, and what is right about it."""

    name: str
    source: str
    cause: str
    first: str
    log: str


def read(file: str) -> list[Report]:
    """The blocks of a file in tests/cases; its head says how they are written."""
    text = (CASES / file).read_text(encoding="utf-8")
    blocks = re.split(r"^=== ", text, flags=re.MULTILINE)[1:]
    return [_report(block) for block in blocks]


def _report(block: str) -> Report:
    name, source, cause, first, log = block.split("\n", 4)
    head = [line.partition(":") for line in (source, cause, first)]
    assert [key for key, _, _ in head] == ["source", "cause", "first"], name
    values = [value.strip() for _, _, value in head]
    return Report(name, values[0], values[1], values[2], log)
