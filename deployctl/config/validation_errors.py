"""pydantic's errors with file, line, column, key path and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from deployctl.config.base import NAME, NAME_RULE
from deployctl.config.document import Value
from deployctl.config.origins import Origin
from deployctl.config.problems import KeyPath, Problem, dotted
from deployctl.config.serve import SecretSettings
from deployctl.config.shape import below, choices, entry, fields, item, section
from deployctl.config.suggest import did_you_mean, nearest


def problems(
    error: ValidationError, tree: Value, schema: Any, complete: bool = True
) -> list[Problem]:
    """Every error as a problem; those of a union's members about one place become one.

    Where the tree is not `complete`, missing keys prove nothing and are left out.
    """
    found: list[Problem] = []
    suggested: set[KeyPath] = set()
    seen: set[KeyPath] = set()
    details = [one for each in error.errors(include_url=False) for one in _apart(each)]
    places = [place(detail["loc"], schema) for detail in details]
    located = zip(details, places, strict=True)
    for detail, path in sorted(located, key=lambda pair: pair[0]["type"] == "missing"):
        if _other_member(detail["type"]) and any(one[: len(path)] == path != one for one in places):
            # A section is written there, and what is wrong in it is reported by itself.
            continue
        if detail["type"] == "misfit":
            path = (*path, *detail["ctx"]["at"])
        if detail["type"] == "extra_forbidden":
            message, stands_for = _unknown(path, schema)
            suggested.update(stands_for)
            found.append(Problem(_written(tree, path), dotted(path), message))
        elif detail["type"] == "missing":
            if complete and path not in suggested:
                found.append(
                    Problem(_written(tree, path[:-1]), dotted(path), "required, and not given")
                )
        elif path not in seen:
            where = _written if detail["type"] in ("misfit", "value_error") else _value
            found.append(Problem(where(tree, path), dotted(path), _message(detail, path, schema)))
        seen.add(path)
    return found


def _apart(detail: ErrorDetails) -> Iterator[ErrorDetails]:
    """The misfits that one error holds, each by itself."""
    yield detail
    for more in detail.get("ctx", {}).get("more", ()) if detail["type"] == "misfit" else ():
        yield {**detail, "msg": more["message"], "ctx": more}


def _other_member(kind: str) -> bool:
    """Whether an error may be that of a union's member which was not meant."""
    return kind == "literal_error" or kind.endswith("_type")


def place(loc: Sequence[str | int], schema: Any) -> KeyPath:
    """A complaint's location as a key path: names of a union's members are left out."""
    path: list[str | int] = []
    for token in loc:
        if isinstance(token, int) and item(schema) is not None:
            schema = item(schema)
        elif isinstance(token, str) and token in fields(schema):
            schema = fields(schema)[token]
        elif isinstance(token, str) and entry(schema) is not None and not _is_tag(token, schema):
            schema = entry(schema)
        elif isinstance(token, str) and _is_tag(token, schema):
            continue
        else:
            schema = None
        path.append(token)
    return tuple(path)


def _is_tag(token: str, schema: Any) -> bool:
    """Whether a location's part is the name of a union's member, not a key."""
    members = choices(schema)
    if len(members) < 2:
        return False
    names = {getattr(member, "__name__", "") for member in members}
    return token in names or token.startswith(("list[", "dict[", "literal[", "function-"))


def _unknown(path: KeyPath, schema: Any) -> tuple[str, set[KeyPath]]:
    """What to say about an unknown key, and the paths that it most probably stands for."""
    *above, name = path
    known = fields(_inner(tuple(above), schema))
    near = nearest(str(name), known)
    if near is not None:
        return f"unknown key; did you mean {near}?", {(*above, near)}
    elsewhere = [found for found in _paths(schema) if found[-1] == name]
    if elsewhere:
        at_the_top = " at the top level" if len(elsewhere[0]) == 1 else ""
        return f"unknown key here; did you mean {dotted(elsewhere[0])}{at_the_top}?", set()
    return f"unknown key; known here: {', '.join(known) or 'none'}", set()


def _paths(schema: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key path of the schema that leads through sections alone."""
    for name, inner in fields(schema).items():
        yield (*above, name)
        if section(inner) is not None and len(above) < 3:
            yield from _paths(inner, (*above, name))


def _message(detail: ErrorDetails, path: KeyPath, schema: Any) -> str:
    kind = detail["type"]
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind.endswith("_type"):
        inner = _inner(path, schema)
        if section(inner) is SecretSettings:
            return "needs env: the name of the variable that holds the secret, not the secret"
        return f"needs {_needs(inner)}, not {_shown(detail['input'])}"
    if kind in ("too_short", "too_long"):
        word, limit = (
            ("least", detail["ctx"]["min_length"])
            if kind == "too_short"
            else ("most", detail["ctx"]["max_length"])
        )
        return f"needs at {word} {limit} {'item' if limit == 1 else 'items'}"
    given = _shown(detail["input"])
    if kind == "literal_error":
        words = _alternatives(_inner(path, schema))
        near = _near(detail["input"], words)
        return f"should be one of {', '.join(words)}, not {given}{near}"
    if kind == "string_pattern_mismatch" and detail["ctx"]["pattern"] == NAME:
        return f"should be a name ({NAME_RULE}), not {given}"
    text = detail["msg"].removeprefix("Input should be ")
    if text != detail["msg"]:
        return f"should be {text}, not {given}"
    return f"{text[:1].lower()}{text[1:]}"


def _near(given: Any, words: Sequence[str]) -> str:
    return did_you_mean(given, words) if isinstance(given, str) else ""


def _inner(path: KeyPath, schema: Any) -> Any:
    for token in path:
        schema = below(schema, token)
    return schema


_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _alternatives(schema: Any) -> list[str]:
    """What may stand there, where some of it are words."""
    found: list[str] = []
    for choice in choices(schema):
        if choice is type(None):
            continue
        literals = get_args(choice)
        found += map(_word, literals) if literals else [_WORDS.get(choice, "a mapping")]
    return found


def _word(literal: Any) -> str:
    return str(literal).lower() if isinstance(literal, bool) else str(literal)


def _needs(schema: Any) -> str:
    words = []
    for choice in choices(schema):
        if section(choice) is not None:
            words.append("a mapping with " + ", ".join(fields(choice)))
        elif item(choice) is not None:
            words.append("a list")
        elif entry(choice) is not None:
            words.append("a mapping")
        elif choice in _WORDS:
            words.append(_WORDS[choice])
        else:
            words.append(", ".join(map(_word, get_args(choice))) or "one of the words it knows")
    shown = [word for word in words if word != "null"] or words
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"the text {value!r}" if isinstance(value, str) else str(value)


def _value(tree: Value, path: KeyPath) -> Origin:
    """Where a value is written."""
    return _deepest(tree, path).origin


def _written(tree: Value, path: KeyPath) -> Origin:
    """Where a key is written; for the root, where the document begins."""
    value = _deepest(tree, path)
    return value.key or value.origin


def _deepest(tree: Value, path: KeyPath) -> Value:
    for token in path:
        child = tree.child(token)
        if child is None:
            break
        tree = child
    return tree
