"""YAML text read into a document, and values written as YAML.

Scalars are read by YAML 1.2's core schema (https://yaml.org/spec/1.2.2/#103-core-schema), not by
PyYAML's 1.1: `on`, `22:22` and `2026-11-30` are text, and `1e7` is a number. Keys are text as
written. Refused, each with its position: a key given twice, YAML 1.1's merge key `<<`, a tag, a
second document, an alias inside its own anchor, U+0000 and a number without end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from deployctl.config.document import Value, display
from deployctl.config.origins import Origin
from deployctl.config.problems import Problem, invalid

_LONGEST_NUMBER = 400
_MOST_VALUES = 100_000
"""Far beyond any profile; reached only by aliases that multiply each other."""
_MOST_TEXT = 4 << 20
"""Characters of a document, and of all its values together, which aliases multiply."""


def read(path: Path, problems: list[Problem]) -> Value:
    """The document in a file.

    Raises `ConfigError` where it cannot be read at all; what is wrong in a document that can is
    added to `problems`, each with file, line and column.
    """
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
    return parse(text, shown, problems)


def parse(text: str, source: str, problems: list[Problem]) -> Value:
    """The document in `text`, as `read`; `source` names it. An empty one is an empty mapping."""
    value = _parsed(text, source, problems)
    return Value({}, Origin(source, 1, 1)) if value is None else value


def parse_scalar(text: str, origin: Origin) -> Value:
    """A value from a variable or the command line: YAML, all of it from one origin.

    Nothing at all is null. Raises `ConfigError` where it is not YAML.
    """
    problems: list[Problem] = []
    value = _parsed(text, str(origin), problems)
    if problems:
        raise invalid(f"cannot read {origin}", problems)
    return Value(None, origin) if value is None else _at(value, origin)


def _parsed(text: str, source: str, problems: list[Problem]) -> Value | None:
    if len(text) > _MOST_TEXT:
        problem = Problem(Origin(source), "", f"more than {_MOST_TEXT} characters")
        raise invalid(f"cannot read {source}", [problem])
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
        return None if node is None else _Reader(source, problems).value(node, None, ())
    except yaml.MarkedYAMLError as error:
        problem = _syntax_problem(error, text, source)
    except yaml.reader.ReaderError as error:
        problem = _character_problem(error, text, source)
    except RecursionError:
        problem = Problem(Origin(source), "", "it is nested too deeply")
    raise invalid(f"cannot read {source}", [problem])


def scalar(value: Any) -> str:
    """One value in YAML on one line, quoted where YAML 1.1 or 1.2 would read it as another."""
    written = yaml.dump(
        value,
        Dumper=_Dumper,
        default_flow_style=True,
        allow_unicode=True,
        width=float("inf"),
        sort_keys=False,
    )
    return written.removesuffix("\n").removesuffix("...").rstrip("\n")


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the core schema's resolvers."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer, which must know both schemas to quote what either would misread."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        """Text of several lines on one, with its line ends escaped."""
        style = '"' if data.splitlines() not in ([], [data]) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.text)


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

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self._source = source
        self._left = _MOST_VALUES
        self._text_left = _MOST_TEXT
        self._problems = problems

    def value(self, node: yaml.Node, key: Origin | None, above: tuple[int, ...]) -> Value:
        origin = self._origin(node)
        self._left -= 1
        if isinstance(node, yaml.ScalarNode):
            self._text_left -= len(node.value)
        if self._left < 0 or self._text_left < 0:
            much = "too many values" if self._left < 0 else "too much text"
            raise yaml.MarkedYAMLError(
                problem=f"{much}; aliases multiply them", problem_mark=node.start_mark
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
            content = self._scalar(node, origin)
            if isinstance(content, str):
                content = self._whole(content, origin)
            return Value(content, origin, key, text=None if node.style else node.value)
        self._problems.append(Problem(origin, "", f"the tag {node.tag} is unsupported"))
        return Value(None, origin, key)

    def _mapping(self, node: yaml.MappingNode, above: tuple[int, ...]) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        for key, item in node.value:
            at = self._origin(key)
            if not isinstance(key, yaml.ScalarNode):
                self._problems.append(Problem(at, "", "a key must be plain text"))
                continue
            name = self._whole(str(key.value), at)
            if name == "<<" and not key.style:
                said = "YAML 1.2 has no merge key; write the values out, or use extends"
                self._problems.append(Problem(at, name, said))
                continue
            if name in entries:
                first = entries[name].key
                self._problems.append(Problem(at, name, f"given twice; first at {first}"))
                continue
            entries[name] = self.value(item, at, above)
        return entries

    def _scalar(self, node: yaml.ScalarNode, origin: Origin) -> Any:
        if node.tag != _TEXT and len(node.value) > _LONGEST_NUMBER:
            self._problems.append(Problem(origin, "", "number too long"))
            return None
        try:
            return _CONSTRUCT[node.tag](node.value)
        except ValueError:
            kind = node.tag.rpartition(":")[2]
            self._problems.append(
                Problem(origin, "", f"invalid {_KINDS.get(kind, kind)} {node.value[:40]!r}")
            )
            return None

    def _whole(self, text: str, origin: Origin) -> str:
        """Text whose characters beyond U+FFFF were escaped as two halves, as JSON has them."""
        if "\0" in text:
            self._problems.append(Problem(origin, "", "the character U+0000 is not allowed"))
            return ""
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._problems.append(Problem(origin, "", "an escape that is half a character"))
            return ""

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self._source, node.start_mark.line + 1, node.start_mark.column + 1)


def _integer(text: str) -> int:
    for prefix, base in (("0x", 16), ("0o", 8)):
        if text.startswith(prefix):
            return int(text[2:], base)
    return int(text)


_TEXT = "tag:yaml.org,2002:str"
_KINDS = {"int": "integer", "float": "number", "bool": "boolean"}
_CONSTRUCT: dict[str, Any] = {
    _TEXT: str,
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


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, source: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    words = ", ".join(part for part in (error.context, error.problem) if part)
    words = "; ".join(part for part in (words, _in_our_words(error, text)) if part)
    where = Origin(source, mark.line + 1, mark.column + 1) if mark else Origin(source)
    return Problem(where, "", words or "not YAML")


def _in_our_words(error: yaml.MarkedYAMLError, text: str) -> str:
    """What to look at, for errors that PyYAML describes by its own grammar."""
    problem = error.problem or ""
    if "'\\t'" in problem or "tab" in problem.split():
        return "use spaces, not tabs"
    mark = error.problem_mark
    if problem.startswith("expected <block end>") and mark is not None:
        before = list(enumerate(text.splitlines()[: mark.line], 1))
        full = [(n, line) for n, line in before if line.strip() and line.lstrip()[0] != "#"]
        number, line = full[-1] if full else (1, "")
        if len(line) - len(line.lstrip()) != mark.column:
            return f"the indentation differs from line {number}"
        return f"it does not continue line {number}: keys and list items ('- ') do not mix"
    if "mapping values are not allowed" in problem:
        return "quote a text that has ': ' in it, or correct the indentation"
    if "could not find expected ':'" in problem:
        return "a key needs ': ' behind it"
    return ""


def _character_problem(error: yaml.reader.ReaderError, text: str, source: str) -> Problem:
    before = text[: error.position]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Problem(
        Origin(source, line, column),
        "",
        f"the character U+{error.character:04X} is not allowed",
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
