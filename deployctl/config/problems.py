"""What is wrong in a configuration, all of it at once, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deployctl.config.origins import Origin
from deployctl.errors import ConfigError

KeyPath = tuple[str | int, ...]
"""Keys and list indices from a document's root to a value."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it is written, its key path and what to know about it."""

    origin: Origin
    path: str
    message: str

    def __str__(self) -> str:
        """One line, whatever characters the file's keys and values have."""
        text = ": ".join(part for part in (str(self.origin), self.path, self.message) if part)
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def invalid(what: str, problems: Iterable[Problem], next: str = "") -> ConfigError:
    """The error that lists every problem, in the order of the files' lines."""
    listed: Sequence[Problem] = sorted(
        set(problems), key=lambda p: (p.origin.source, p.origin.line, p.origin.column, p.path)
    )
    return ConfigError(
        what if len(listed) == 1 else f"{what}: {len(listed)} problems",
        "\n".join(str(problem) for problem in listed),
        next or "Correct it and try again; nothing was touched on any host.",
    )


def dotted(tokens: Iterable[str | int]) -> str:
    """A key path as people write it: `hosts.0.ssh.port`."""
    return ".".join(str(token) or "''" for token in tokens)
