"""Change values inside a JSON text and leave every other byte as it was.

Key paths are dotted: `dflash_config.mask_token_id`. Only objects are walked, never lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Member(NamedTuple):
    """One member of an object: where its key, its value begins and its value ends."""

    key: str
    begin: int
    value: int
    end: int


class NotAnObject(ValueError):
    """The text, or what a key path leads through, is not a JSON object."""


def _skip(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    assert found is not None
    return found.end()


def members(text: str, index: int) -> Iterator[Member]:
    """The members of the object that begins at `index`, in order."""
    if text[index : index + 1] != "{":
        raise NotAnObject(f"no JSON object at character {index}")
    index = _skip(text, index + 1)
    while text[index] != "}":
        key, end = _DECODER.raw_decode(text, index)
        value = _skip(text, _skip(text, end) + 1)
        _, stop = _DECODER.raw_decode(text, value)
        yield Member(key, index, value, stop)
        index = _skip(text, stop)
        if text[index] == ",":
            index = _skip(text, index + 1)


def find(text: str, path: str) -> Member | None:
    """The member at a key path; None where there is none. Of a key given twice, the last: that
    is the one every reader takes."""
    index = _skip(text, 0)
    found: Member | None = None
    for key in path.split("."):
        if found is not None and text[index] != "{":
            return None
        found = next((m for m in reversed(list(members(text, index))) if m.key == key), None)
        if found is None:
            return None
        index = found.value
    return found


def put(text: str, path: str, value: Any) -> str:
    """The text with one value replaced, or added at the end of its object.

    Objects on the way that do not exist are added; raises `NotAnObject` where the path leads
    through something else.
    """
    found = find(text, path)
    if found is not None:
        shown = _render(value, _indent_of(text, found.begin), text[found.value : found.end])
        return text[: found.value] + shown + text[found.end :]
    above, _, key = path.rpartition(".")
    parent = find(text, above) if above else None
    if above and parent is None:
        return put(text, above, {key: value})
    return _append(text, _skip(text, 0) if parent is None else parent.value, key, value)


def _append(text: str, index: int, key: str, value: Any) -> str:
    present = list(members(text, index))
    if not present:
        _, end = _DECODER.raw_decode(text, index)
        return text[:index] + json.dumps({key: value}) + text[end:]
    last = present[-1]
    indent = _indent_of(text, last.begin)
    separator = ", " if indent is None else ",\n" + indent
    member = f"{json.dumps(key)}: {_render(value, indent, '')}"
    return text[: last.end] + separator + member + text[last.end :]


def _indent_of(text: str, index: int) -> str | None:
    """The white space before a key that begins a line; None for one within a line."""
    line = text[text.rfind("\n", 0, index) + 1 : index]
    return line if "\n" in text[:index] and not line.strip() else None


def _render(value: Any, indent: str | None, before: str) -> str:
    """A value in the file's own style: several lines where the old value had them."""
    if indent is None or "\n" not in before or not isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    step = re.search(r"\n([ \t]*)\S", before)
    deeper = step.group(1)[len(indent) :] if step else ""
    lines = json.dumps(value, ensure_ascii=False, indent=deeper or "  ").split("\n")
    return ("\n" + indent).join(lines)


def flatten(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested wanted values as key paths: `{a: {b: 1}}` and `{"a.b": 1}` are the same."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, path + "."))
        else:
            flat[path] = value
    return flat


def look(document: Any, path: str) -> Any:
    """The value at a key path of a parsed document; `KeyError` where there is none."""
    for key in path.split("."):
        if not isinstance(document, Mapping):
            raise KeyError(path)
        document = document[key]
    return document
