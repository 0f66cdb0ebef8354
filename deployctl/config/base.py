"""What all configuration models share: unknown keys refused, nothing changes after validation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
NAME_RULE = "lower-case letters, digits, '.', '_' and '-', 63 at most"


class Settings(BaseModel):
    """A section of a profile, host file or playbook.

    `alternatives` lists keys of which only one may be given, each with the keys that depend on
    it: giving one in a profile replaces another that it inherits.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )
    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: Any) -> dict[str, Any]:
        """A schema whose keys are described by the docstrings below them. pydantic would read them
        for each class that is imported, which costs every command a third of its start."""
        found: dict[str, Any] = handler(core)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in _docstrings(cls):
            field = cls.model_fields.get(name)
            key = (field.alias if field is not None else None) or name
            if key in properties:
                properties[key]["description"] = text
        return found


def _docstrings(cls: type) -> Iterator[tuple[str, str]]:
    """Attributes of a class and of those that it derives from, with the strings below them."""
    import ast
    import inspect
    from textwrap import dedent

    for one in reversed(cls.__mro__):
        if not issubclass(one, Settings):
            continue
        (definition,) = ast.parse(dedent(inspect.getsource(one))).body
        assert isinstance(definition, ast.ClassDef)
        for before, after in pairwise(definition.body):
            if (
                isinstance(before, ast.AnnAssign)
                and isinstance(before.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                yield before.target.id, inspect.cleandoc(after.value.value)


def named_as_variables(section: str, names: Iterable[str]) -> None:
    """Raise for a name that no variable of an environment can have."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise misfit((section, name), "a variable's name has letters, digits and '_' alone")


def misfit(at: tuple[str | int, ...], message: str) -> PydanticCustomError:
    """A section's keys do not fit together; the error points at the key path `at` below it."""
    return PydanticCustomError("misfit", "{message}", {"message": message, "at": at})


@contextmanager
def collected(found: list[PydanticCustomError]) -> Iterator[None]:
    """Keep what does not fit together, so that the next rule is looked at too."""
    try:
        yield
    except PydanticCustomError as error:
        found.append(error)


def refuse(found: Sequence[PydanticCustomError]) -> None:
    """Raise all of these misfits as one error; nothing where there is none."""
    if found:
        first, *rest = (error.context or {} for error in found)
        raise PydanticCustomError("misfit", "{message}", {**first, "more": rest})


NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: Any) -> Any:
    """`15m`, `90s`, `1h30m` or a number, as seconds."""
    if isinstance(value, str):
        if re.fullmatch(NUMBER, value):
            return float(value)
        parts = re.findall(f"({NUMBER})(ms|s|m|h|d)", value)
        if parts and "".join(number + unit for number, unit in parts) == value.replace(" ", ""):
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
        raise ValueError("write a duration as 90s, 15m or 1h30m, or as a number of seconds")
    return value


LONGEST = 20 * 86400
"""Seconds; what waits for something can wait for 24 days at most (milliseconds in an int)."""

Duration = Annotated[
    float,
    BeforeValidator(seconds),
    Field(ge=0, le=LONGEST),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "description": "Seconds.",
                    "type": "number",
                    "minimum": 0,
                    "maximum": LONGEST,
                },
                {
                    "description": "A duration such as 90s, 15m or 1h30m.",
                    "type": "string",
                    "pattern": rf"^(({NUMBER}(ms|s|m|h|d) *)+|{NUMBER})$",
                },
            ]
        }
    ),
]
