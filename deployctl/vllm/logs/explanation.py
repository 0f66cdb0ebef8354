"""What a log says about a failure: the answer of both readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["server", "build"]
SHOWN = 400
"""Characters of a decisive line that people are shown."""
KEPT = 4_000
"""Characters of a line of evidence, as it stands in the file."""


@dataclass(frozen=True)
class Explanation:
    """Why it failed.

    `cause` is a stable id from the tables, empty where none is known; `sentence` says it for
    people and `next` is one step that costs little; both are empty where the cause is not known.
    `lines` are the decisive lines without what loggers put before them, `evidence` the same as they
    stand in the file.
    """

    cause: str
    sentence: str
    next: str
    lines: tuple[str, ...]
    evidence: tuple[str, ...] = ()
