"""YAML as a tree in which every value knows where it was written.

Scalars are read by YAML 1.2's core schema (https://yaml.org/spec/1.2.2/#103-core-schema), not by
PyYAML's 1.1: `on`, `22:22` and `2026-11-30` are text, and `1e7` is a number. Keys are text as
written. Refused, each with its position: a key given twice, a tag, a second document, an alias
inside its own anchor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from deployctl.config.origins import Origin
from deployctl.config.problems import Problem, invalid

Scalar = str | int | float | bool | None

_MOST_VALUES = 100_000
"""Far beyond any profile; reached only by aliases that multiply each other."""


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


def read(path: Path) -> Value:
    """The document in a file; raises `ConfigError` with file, line and column."""
    shown = display(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise invalid(
            f"cannot read {shown}", [Problem(Origin(shown), "", _reason(error))]
        ) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(Origin(shown, line, column), "", "this byte is not UTF-8 text")
        raise invalid(f"cannot read {shown}", [problem]) from None
    return parse(text, shown)


def parse(text: str, source: str) -> Value:
    """The document in `text`; `source` names it in origins. An empty one is an empty mapping."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Value({}, Origin(source, 1, 1))
        reader = _Reader(source)
        value = reader.value(node, None, ())
    except yaml.MarkedYAMLError as error:
        raise invalid(f"cannot read {source}", [_syntax_problem(error, source)]) from None
    except yaml.reader.ReaderError as error:
        problem = _character_problem(error, text, source)
        raise invalid(f"cannot read {source}", [problem]) from None
    except RecursionError:
        problem = Problem(Origin(source), "", "it is nested too deeply")
        raise invalid(f"cannot read {source}", [problem]) from None
    finally:
        loader.dispose()
    if reader.problems:
        raise invalid(f"cannot read {source}", reader.problems)
    return value


def parse_scalar(text: str, origin: Origin) -> Value:
    """A value from a variable or the command line: YAML, all of it from one origin."""
    return _at(parse(text, str(origin)), origin) if text.strip() else Value(None, origin, text=text)


def merge(base: Value, over: Value) -> Value:
    """Mappings are merged key by key, deeply; everything else in `over` replaces `base`."""
    if not (isinstance(base.content, dict) and isinstance(over.content, dict)):
        return over
    merged = dict(base.content)
    for name, value in over.content.items():
        merged[name] = merge(merged[name], value) if name in merged else value
    return replace(over, content=merged)


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


def scalar(value: Any) -> str:
    """One value in YAML on one line, quoted where YAML 1.1 or 1.2 would read it as another."""
    style = '"' if isinstance(value, str) and "\n" in value else None
    written = yaml.dump(
        value,
        Dumper=_Dumper,
        default_flow_style=True,
        default_style=style,
        allow_unicode=True,
        width=float("inf"),
        sort_keys=False,
    )
    return written.removesuffix("\n").removesuffix("...").rstrip("\n")


def display(path: Path) -> str:
    """A file's name in messages: relative where it lies below the working directory."""
    absolute = path.absolute()
    try:
        return str(absolute.relative_to(Path.cwd()))
    except ValueError:
        return str(absolute)


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the core schema's resolvers."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer, which must know both schemas to quote what either would misread."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_RESOLVERS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)
for _name, _pattern, _first in _RESOLVERS:
    for _side in (_Loader, _Dumper):
        _side.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), _first
        )


class _Reader:
    """Turns PyYAML's nodes into values and collects what is wrong on the way."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._left = _MOST_VALUES
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, key: Origin | None, above: tuple[int, ...]) -> Value:
        origin = self._origin(node)
        self._left -= 1
        if self._left < 0:
            raise yaml.MarkedYAMLError(
                problem="too many values; aliases multiply them", problem_mark=node.start_mark
            )
        if id(node) in above:
            raise yaml.MarkedYAMLError(
                problem="an alias inside its own anchor", problem_mark=node.start_mark
            )
        below = (*above, id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return Value(self._mapping(node, below), origin, key)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            items = tuple(self.value(item, None, below) for item in node.value)
            return Value(items, origin, key)
        if isinstance(node, yaml.ScalarNode) and node.tag in _CONSTRUCT:
            content = _CONSTRUCT[node.tag](node.value)
            return Value(content, origin, key, text=None if node.style else node.value)
        self.problems.append(Problem(origin, "", f"the tag {node.tag} means nothing here"))
        return Value(None, origin, key)

    def _mapping(self, node: yaml.MappingNode, above: tuple[int, ...]) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        for key, item in node.value:
            at = self._origin(key)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(at, "", "a key must be plain text"))
                continue
            name = str(key.value)
            if name in entries:
                first = entries[name].key
                self.problems.append(Problem(at, name, f"given twice; first at {first}"))
                continue
            entries[name] = self.value(item, at, above)
        return entries

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self._source, node.start_mark.line + 1, node.start_mark.column + 1)


def _integer(text: str) -> int:
    for prefix, base in (("0x", 16), ("0o", 8)):
        if text.startswith(prefix):
            return int(text[2:], base)
    return int(text)


_CONSTRUCT: dict[str, Any] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:null": lambda text: None,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": lambda text: float(
        text.lower().replace(".inf", "inf").replace(".nan", "nan")
    ),
}


def _at(value: Value, origin: Origin) -> Value:
    content = value.content
    if isinstance(content, dict):
        content = {name: _at(entry, origin) for name, entry in content.items()}
    elif isinstance(content, tuple):
        content = tuple(_at(item, origin) for item in content)
    return Value(content, origin, None if value.key is None else origin, value.text)


def _syntax_problem(error: yaml.MarkedYAMLError, source: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    words = ", ".join(part for part in (error.context, error.problem) if part)
    where = Origin(source, mark.line + 1, mark.column + 1) if mark else Origin(source)
    return Problem(where, "", words or "not YAML")


def _character_problem(error: yaml.reader.ReaderError, text: str, source: str) -> Problem:
    before = text[: error.position]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Problem(
        Origin(source, line, column),
        "",
        f"the character {error.character!r} is not allowed in YAML",
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
