"""Where a value comes from: a place in a file, a variable, the command line or the schema."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """`source` is a file's name, `environment NAME`, `--set` or `default`.

    `line` and `column` count from 1 and are 0 where the source is not a file.
    """

    source: str
    line: int = 0
    column: int = 0

    @property
    def layer(self) -> str:
        """Which of the layers it belongs to: `file`, `environment`, `--set` or `default`."""
        return "file" if self.line else self.source.partition(" ")[0]

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


DEFAULT = Origin("default")
COMMAND_LINE = Origin("--set")


def environment(name: str) -> Origin:
    """The origin of a value set by the environment variable `name`."""
    return Origin(f"environment {name}")
