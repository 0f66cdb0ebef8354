"""One known cause of a failure, and how a log shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

On = Literal["error", "line", "nccl"]
"""Where a cause is looked for: in exceptions and error lines; also in lines without a logger; or in
NCCL's own warnings before an exception of the same process that names NCCL."""


@dataclass(frozen=True)
class Cause:
    """A failure that is known: its stable id, a sentence about it, and one step that costs little.

    `{name}` in the texts stands for a named group of the pattern. `phase` limits a cause to what
    the server was doing (`phases.MEMORY`). `writer` names the program whose words the pattern are.
    """

    id: str
    writer: str
    pattern: re.Pattern[str]
    sentence: str
    next: str
    phase: str = ""
    on: On = "error"

    def words(self, template: str, match: re.Match[str]) -> str:
        """A text with the match's groups put in."""
        return template.format_map({name: _shown(name, match[name]) for name in match.groupdict()})


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
    return Cause(id, writer, re.compile(pattern, flags), sentence, next, phase, on)


def _shown(name: str, value: str | None) -> str:
    """A group as it is shown; the driver API's numbers (12080) as people write them (12.8)."""
    if not value:
        return "?"
    if name.endswith("cuda") and re.fullmatch(r"\d{4,5}", value):
        return f"{int(value) // 1000}.{int(value) % 1000 // 10}"
    return " ".join(value.split())[:200]


def groups(pattern: re.Pattern[str]) -> Mapping[str, int]:
    """The names that a text may use."""
    return pattern.groupindex
