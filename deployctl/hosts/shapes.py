"""Whether a JSON value has the shape that a type of the wire gives it."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

LARGEST = 2**63
"""Beyond this no number of a host is meant."""
_WORDS = {str: "text", bool: "true or false", int: "an integer", float: "a number"}


def mismatch(value: object, shape: Any, place: str = "") -> str:
    """Where and how a value differs from a type of TypedDict, Dict, List, Literal, Union and
    JSON's own types; empty where it does not. Keys that a TypedDict does not know may be there."""
    if shape is Any or shape is object:
        return ""
    if shape is None or shape is type(None):
        return "" if value is None else _differs(place, "null", value)
    if shape in _WORDS:
        return "" if _plain(value, shape) else _differs(place, _WORDS[shape], value)
    if is_typeddict(shape):
        return _object(value, shape, place)
    origin, inner = get_origin(shape), get_args(shape)
    if origin is Literal:
        return "" if value in inner else _differs(place, " or ".join(map(repr, inner)), value)
    if origin in (Union, types.UnionType):
        return _any_of(value, inner, place)
    if origin is list:
        return _list(value, inner[0], place)
    if origin is dict:
        return _dict(value, inner[1], place)
    raise TypeError(f"{shape} is not a wire type")


def _plain(value: object, shape: type) -> bool:
    if isinstance(value, bool) or shape is bool:
        return isinstance(value, bool) and shape is bool
    if isinstance(value, int) and shape in (int, float):
        return abs(value) <= LARGEST
    if isinstance(value, float) and shape is float:
        return math.isfinite(value) and abs(value) <= LARGEST
    return isinstance(value, str) and shape is str


def _object(value: object, shape: Any, place: str) -> str:
    if not isinstance(value, dict):
        return _differs(place, "an object", value)
    hints = _hints(shape)
    for name in shape.__required_keys__:
        if name not in value:
            return f"{place or 'it'} lacks {name}"
    checked = ((name, hints[name]) for name in value if name in hints)
    return _first(mismatch(value[name], hint, _within(place, name)) for name, hint in checked)


def _any_of(value: object, shapes: tuple[Any, ...], place: str) -> str:
    wrong = [mismatch(value, shape, place) for shape in shapes]
    return "" if "" in wrong else max(wrong, key=len)


def _list(value: object, shape: Any, place: str) -> str:
    if not isinstance(value, list):
        return _differs(place, "a list", value)
    return _first(mismatch(item, shape, f"{place}[{index}]") for index, item in enumerate(value))


def _dict(value: object, shape: Any, place: str) -> str:
    if not isinstance(value, dict):
        return _differs(place, "an object", value)
    return _first(mismatch(item, shape, _within(place, str(name))) for name, item in value.items())


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _first(found: Any) -> str:
    return next(filter(None, found), "")


def _differs(place: str, wanted: str, value: object) -> str:
    plain = isinstance(value, (str, int, float, type(None)))
    shown = repr(value)[:60] if plain else type(value).__name__
    return f"{place or 'it'} is {shown}, not {wanted}"


@functools.cache
def _hints(shape: Any) -> Mapping[str, Any]:
    return get_type_hints(shape)
