"""Values set from outside a profile: `--set serve.port=30001` and `DEPLOYCTL_SERVE__PORT=30001`.

A path's parts are keys and list indices (`hosts.0.root`). Below a mapping with free keys, such as
`drafter.config`, what remains of the path is one key: `drafter.config.dflash_config.mask_token_id`.
In a variable's name two underscores stand between parts, and case and the difference between dash
and underscore do not count. A variable without two underscores is an override only when it names
a key at the top of a profile (`DEPLOYCTL_PLAYBOOK`). Values are YAML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl.config.document import Value
from deployctl.config.layers import put
from deployctl.config.origins import COMMAND_LINE, Origin, environment
from deployctl.config.problems import Problem, dotted
from deployctl.config.shape import below, entry, fields, item, section
from deployctl.config.suggest import did_you_mean, folded
from deployctl.config.yamltext import parse_scalar
from deployctl.errors import ConfigError, UsageError

PREFIX = "DEPLOYCTL_"


@dataclass(frozen=True)
class Override:
    """One value for one path; `folded` paths are matched without case and dashes."""

    tokens: tuple[str, ...]
    value: Value
    origin: Origin
    folded: bool = False

    def path(self, depth: int | None = None) -> str:
        """The first parts of the path, or all of it, for people to read."""
        text = dotted(self.tokens[:depth])
        return text.lower() if self.folded else text


class UnknownPath(Exception):
    """An override's path leads nowhere; the message says where it ends and what is near."""


def from_environment(environ: Mapping[str, str], schema: Any) -> list[Override]:
    """The overrides among the environment's variables."""
    found = []
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        tokens = tuple(name.removeprefix(PREFIX).split("__"))
        origin = environment(name)
        if len(tokens) > 1 or tokens[0].lower() in fields(schema):
            found.append(Override(tokens, parse_scalar(environ[name], origin), origin, True))
    return found


def near_misses(environ: Mapping[str, str], schema: Any) -> list[str]:
    """What to say of variables that look like a key path with single underscores: they set
    nothing, and were probably meant to."""
    said = []
    for name in sorted(environ):
        rest = name.removeprefix(PREFIX)
        if rest == name or "__" in rest or rest.lower() in fields(schema):
            continue
        meant = _split(rest.lower(), schema)
        if len(meant) > 1:
            right = PREFIX + "__".join(meant).upper()
            said.append(f"{name} sets nothing; did you mean {right} (two underscores)?")
    return said


def _split(text: str, schema: Any) -> tuple[str, ...]:
    """A key path in a text whose parts are joined by single underscores; empty where there is
    none. Below free keys the rest is one key."""
    for key, inner in fields(schema).items():
        name = folded(key)
        if text == name:
            return (name,)
        if text.startswith(f"{name}_"):
            rest = text.removeprefix(f"{name}_")
            below_it = _split(rest, inner) if section(inner) is not None else ()
            if below_it or entry(inner) is not None:
                return (name, *(below_it or (rest,)))
    return ()


def from_command_line(sets: Sequence[str]) -> list[Override]:
    """The overrides of `--set PATH=VALUE`; raises `UsageError` for one that is malformed."""
    found = []
    for text in sets:
        path, separator, value = text.partition("=")
        tokens = tuple(path.strip().split("."))
        if not separator or not all(tokens):
            raise UsageError(
                f"--set {text}: not PATH=VALUE", "", "Write it as --set serve.port=30001"
            )
        try:
            parsed = parse_scalar(value, COMMAND_LINE)
        except ConfigError as error:
            raise UsageError(f"--set {path}: the value is not YAML", error.why) from None
        found.append(Override(tokens, parsed, COMMAND_LINE))
    return found


def apply(tree: Value, override: Override, schema: Any) -> Value:
    """The tree with one override in it; raises `UnknownPath`."""
    if override.tokens[0].lower() == "extends":
        raise UnknownPath("extends can be set in a file only")
    return _place(tree, override, 0, schema)


def problem(override: Override, error: UnknownPath) -> Problem:
    """An override that leads nowhere, as a problem of its origin."""
    return Problem(override.origin, override.path(), str(error))


def _place(tree: Value | None, override: Override, depth: int, schema: Any) -> Value:
    tokens = override.tokens[depth:]
    if not tokens:
        return replace(override.value, key=override.origin)
    if item(schema) is not None and (tokens[0].isdecimal() or section(schema) is None):
        return _in_list(tree, override, depth, schema)
    if section(schema) is None and entry(schema) is None:
        raise UnknownPath(f"{override.path(depth)} is a plain value without keys")
    name, used = _key(tree, override, depth, schema)
    inner = below(schema, name)
    base = tree
    if base is None or base.content is None:
        base = Value({}, override.origin, override.origin)
    if not isinstance(base.content, dict):
        where = override.path(depth)
        raise UnknownPath(f"{where} is not a mapping in the profile")
    child = _place(base.child(name), override, depth + used, inner)
    return put(base, name, child, schema)


def _key(tree: Value | None, override: Override, depth: int, schema: Any) -> tuple[str, int]:
    """The key that the next tokens name, and how many of them it takes."""
    tokens = override.tokens[depth:]
    known = list(fields(schema))
    if known:
        name = _match(tokens[0], known, override.folded)
        if name is None:
            raise UnknownPath(_unknown(override, depth, known))
        return name, 1
    used = 1 if section(entry(schema)) else len(tokens)
    written = dotted(tokens[:used])
    present = list(tree.entries) if tree is not None else []
    return _match(written, present, override.folded) or _new_key(written, override, depth), used


def _new_key(written: str, override: Override, depth: int) -> str:
    """A free key as its mapping spells keys: variables as they are, options with dashes."""
    if not override.folded or depth == 0:
        return written
    mapping = override.tokens[depth - 1].lower()
    if mapping in ("env", "secrets"):
        return written
    return written.lower().replace("_", "-") if mapping == "args" else written.lower()


def _match(token: str, known: Sequence[str], is_folded: bool) -> str | None:
    if token in known or not is_folded:
        return token if token in known else None
    return next((name for name in known if folded(name) == folded(token)), None)


def _unknown(override: Override, depth: int, known: Sequence[str]) -> str:
    token = override.tokens[depth].lower() if override.folded else override.tokens[depth]
    where = override.path(depth) or "a profile"
    suggestion = did_you_mean(token, known)
    listed = "" if suggestion else f"; it has {', '.join(known)}"
    return f"{where} has no key {token}{suggestion}{listed}"


def _in_list(tree: Value | None, override: Override, depth: int, schema: Any) -> Value:
    token = override.tokens[depth]
    items = list(tree.items) if tree is not None else []
    if not token.isdecimal() or int(token) >= len(items):
        where = override.path(depth)
        has = f"items 0 to {len(items) - 1}" if items else "no items"
        raise UnknownPath(f"{where} is a list with {has}; {token} is not one of them")
    index = int(token)
    items[index] = _place(items[index], override, depth + 1, item(schema))
    base = tree if tree is not None else Value((), override.origin)
    return replace(base, content=tuple(items))
