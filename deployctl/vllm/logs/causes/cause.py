"""One known cause of a failure, and how a log shows it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

On = Literal["error", "line", "nccl"]
"""Where a cause is looked for: in exceptions and error lines; also in lines without a logger; or in
NCCL's own warnings before an exception of the same process that names NCCL."""


UNKNOWN = "(not in the log)"
"""Stands for a group that a text needs and a match lacks."""
_NAME = re.compile(r"\{([\w/]+)\}")
_PART = re.compile(r"\[(?P<part>[^][|]*)(?:\|(?P<other>[^][]*))?\]|\{(?P<name>[\w/]+)\}")


@dataclass(frozen=True)
class Cause:
    """A failure that is known: its stable id, a sentence about it, and one step that costs little.

    `{name}` in the texts stands for a named group of the pattern, `{one/other}` for the first of
    them that the match has. Where a match may lack it, it stands in brackets: `[in {path}]` is left
    out then, `[in {path}|somewhere]` becomes what follows the bar. `phase` limits a cause to what
    the server was doing (`phases.MEMORY`). `writer` names the program whose words the pattern are.
    """

    id: str
    writer: str
    regex: str
    sentence: str
    next: str
    phase: str = ""
    on: On = "error"
    flags: int = re.MULTILINE

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when first looked for: all of them take as long as a third of our imports."""
        return re.compile(self.regex, self.flags)

    def words(self, template: str, match: re.Match[str]) -> str:
        """A text with the match's groups put in."""

        def filled(text: str) -> str | None:
            """None where the match lacks a group of the text."""
            values = {names: _first(names, match) for names in _NAME.findall(text)}
            if not all(values.values()):
                return None
            return _NAME.sub(lambda found: values[found[1]], text)

        def part(found: re.Match[str]) -> str:
            if found["name"]:
                return _first(found["name"], match) or UNKNOWN
            chosen = filled(found["part"])
            return chosen if chosen is not None else filled(found["other"] or "") or ""

        return _PART.sub(part, template)


def cause(
    id: str,
    writer: str,
    pattern: str,
    sentence: str,
    next: str,
    *,
    phase: str = "",
    on: On = "error",
    flags: int = re.MULTILINE,
) -> Cause:
    """An entry of a table."""
    return Cause(id, writer, pattern, sentence, next, phase, on, flags)


def _first(names: str, match: re.Match[str]) -> str:
    """The first of several groups that the match has, as it is shown; empty where it has none."""
    return next((shown for name in names.split("/") if (shown := _shown(name, match[name]))), "")


def _shown(name: str, value: str | None) -> str:
    """A group as it is shown; the driver API's numbers (12080) as people write them (12.8)."""
    if not value:
        return ""
    if name.endswith("cuda") and re.fullmatch(r"\d{4,5}", value):
        return f"{int(value) // 1000}.{int(value) % 1000 // 10}"
    return " ".join(value.split())[:200]


def bare(template: str) -> set[str]:
    """What of a text stands outside brackets: every match must have one of each."""
    return {found["name"] for found in _PART.finditer(template) if found["name"]}
