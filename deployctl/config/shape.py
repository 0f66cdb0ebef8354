"""What the schema allows at a place, read from the pydantic models' annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Union, get_args, get_origin

from deployctl.config.base import Settings
from deployctl.config.document import Value


def choices(annotation: Any) -> list[Any]:
    """The members of a union (or the annotation itself), without `Annotated`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return choices(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        return [choice for member in get_args(annotation) for choice in choices(member)]
    return [annotation]


def section(annotation: Any) -> type[Settings] | None:
    """The model that a mapping here must satisfy, where there is one."""
    for choice in choices(annotation):
        if isinstance(choice, type) and issubclass(choice, Settings):
            return choice
    return None


def fields(annotation: Any) -> Mapping[str, Any]:
    """The keys that a mapping here may have, with what each allows; empty where keys are free."""
    model = section(annotation)
    if model is None:
        return {}
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def item(annotation: Any) -> Any:
    """What an item of a list here must be; None where no list may stand."""
    return _argument(annotation, list, 0)


def entry(annotation: Any) -> Any:
    """What the values of a mapping with free keys must be; None where none may stand."""
    return _argument(annotation, dict, 1)


def below(annotation: Any, token: str | int) -> Any:
    """What may stand under a key or index; None where nothing may."""
    if isinstance(token, int):
        return item(annotation)
    return fields(annotation).get(token) or entry(annotation)


def takes_text(annotation: Any) -> bool:
    """Whether a scalar here is text whatever it looks like: `3.10`, `true`, `0123`."""
    allowed = choices(annotation)
    return str in allowed and not {int, float, bool, Any} & set(map(_hashable, allowed))


def takes_null(annotation: Any) -> bool:
    """Whether null is a value here; elsewhere it says that nothing is given."""
    return bool({type(None), Any} & set(map(_hashable, choices(annotation))))


def fitted(value: Value, annotation: Any) -> Value:
    """The tree as the schema reads it.

    A plain scalar is kept as written where text is asked for, so `python: 3.10` does not become
    3.1. A key without a value counts as not given where null is not a value.
    """
    if isinstance(value.content, dict):
        entries = {}
        for name, child in value.entries.items():
            inner = below(annotation, name)
            if child.content is None and inner is not None and not takes_null(inner):
                continue
            entries[name] = fitted(child, inner)
        return replace(value, content=entries)
    if isinstance(value.content, tuple):
        inner = item(annotation)
        return replace(value, content=tuple(fitted(child, inner) for child in value.content))
    number = isinstance(value.content, bool | int | float)
    if number and value.text is not None and takes_text(annotation):
        return replace(value, content=value.text)
    return value


def _argument(annotation: Any, container: type, index: int) -> Any:
    for choice in choices(annotation):
        if get_origin(choice) is container:
            return get_args(choice)[index]
    return None


def _hashable(choice: Any) -> Any:
    return choice if isinstance(choice, type) or choice is Any else None
