"""A resolved profile as YAML that is itself a complete profile, with each value's origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.config.document import display, leaves
from deployctl.config.loader import Loaded
from deployctl.config.marks import mark
from deployctl.config.problems import KeyPath, dotted
from deployctl.config.yamltext import scalar

SCHEMA = "deployctl.profile/1"

_COMMENT_COLUMN = 44
_ROOT = "/var/lib/deployctl for root, ~/.local/share/deployctl for others"
"""What an empty root stands for; the host's agent decides (hosts/bundle.py)."""


def as_yaml(loaded: Loaded, with_origin: bool = False) -> str:
    """The profile with its hosts in place; each value's origin behind it where asked for."""
    lines = []
    plain = data(loaded)
    for text, path in _lines(plain, (), ""):
        if with_origin and path is not None:
            text = f"{text.ljust(_COMMENT_COLUMN)}  # {loaded.origins[dotted(path)]}"
        said = "" if path is None else mark(path, _at(plain, path), plain)
        if said:
            text = f"{text}{',' if with_origin else '  #'} {said}"
        if path is not None and path[-1] == "root" and text.strip().startswith("root: ''"):
            text = f"{text}{',' if with_origin else '  #'} {_ROOT}"
        lines.append(text)
    return "\n".join(lines)


def as_document(loaded: Loaded) -> dict[str, Any]:
    """The profile, its origins and its files as JSON data."""
    return {
        "schema": SCHEMA,
        "name": loaded.profile.name,
        "files": [display(path) for path in loaded.files],
        "profile": data(loaded),
        "origins": {path: str(origin) for path, origin in loaded.origins.items()},
    }


def data(loaded: Loaded) -> dict[str, Any]:
    """The resolved profile as plain data; `extends` has been resolved and is left out."""
    return loaded.profile.model_dump(by_alias=True, exclude={"extends"})


def _lines(value: Any, path: KeyPath, indent: str) -> Iterator[tuple[str, KeyPath | None]]:
    """Each line with the path of the leaf on it, or None where it only opens a section."""
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield from _entry(f"{indent}{scalar(name)}:", child, (*path, name), indent)
        return
    for index, child in enumerate(value):
        below = (*path, index)
        if _is_leaf(child):
            yield f"{indent}- {scalar(child)}", below
            continue
        for number, (text, leaf) in enumerate(_lines(child, below, f"{indent}  ")):
            yield (f"{indent}- {text[len(indent) + 2 :]}" if number == 0 else text), leaf


def _entry(
    head: str, child: Any, path: KeyPath, indent: str
) -> Iterator[tuple[str, KeyPath | None]]:
    if _is_leaf(child):
        yield f"{head} {scalar(child)}", path
    else:
        yield head, None
        yield from _lines(child, path, f"{indent}  ")


def _at(value: Any, path: KeyPath) -> Any:
    for token in path:
        value = value[token]
    return value


def _is_leaf(value: Any) -> bool:
    return list(leaves(value)) == [()]
