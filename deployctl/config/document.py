"""A configuration as a tree in which every value knows where it was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deployctl.config.origins import Origin

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Value:
    """One value of a document.

    `origin` is where it is written, `key` where its key is (None for list items and the root),
    `text` a plain scalar as written, so that `3.10` is not lost as the number 3.1.
    """

    content: Scalar | dict[str, Value] | tuple[Value, ...]
    origin: Origin
    key: Origin | None = None
    text: str | None = None

    @property
    def entries(self) -> dict[str, Value]:
        """The entries of a mapping; none for anything else."""
        return self.content if isinstance(self.content, dict) else {}

    @property
    def items(self) -> tuple[Value, ...]:
        """The items of a list; none for anything else."""
        return self.content if isinstance(self.content, tuple) else ()

    def child(self, token: str | int) -> Value | None:
        """The value below a key or index, where there is one."""
        if isinstance(self.content, dict):
            return self.content.get(str(token))
        if isinstance(token, int) and 0 <= token < len(self.items):
            return self.items[token]
        return None

    def at(self, path: Iterable[str | int]) -> Value | None:
        """The value at a key path below this one, where there is one."""
        value: Value | None = self
        for token in path:
            value = value.child(token) if value is not None else None
        return value

    def plain(self) -> Any:
        """The same data without origins."""
        if isinstance(self.content, dict):
            return {key: value.plain() for key, value in self.content.items()}
        if isinstance(self.content, tuple):
            return [value.plain() for value in self.content]
        return self.content

    def with_entry(self, name: str, value: Value) -> Value:
        """This mapping with one entry replaced or added."""
        return replace(self, content={**self.entries, name: value})


def leaves(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of plain data's leaves; a list of plain values, or an empty one, is one leaf."""
    if isinstance(data, Mapping) and data:
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list) and any(isinstance(item, Mapping | list) for item in data):
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    else:
        yield path


def display(path: Path) -> str:
    """A file's name in messages: relative where it lies below the working directory."""
    absolute = path.absolute()
    try:
        return str(absolute.relative_to(Path.cwd()))
    except ValueError:
        return str(absolute)
