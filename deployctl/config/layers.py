"""One layer of a configuration over another: extending files, and values set from outside.

Mappings are merged key by key; everything else replaces what lies below, lists too. Where a
section takes only one of several keys (`release`, `pr`, `ref`, …), the upper layer's replaces
the lower's together with what depends on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deployctl.config.document import Value
from deployctl.config.shape import below, section


def merge(base: Value, over: Value, schema: Any) -> Value:
    """`over` on top of `base`."""
    if not (isinstance(base.content, dict) and isinstance(over.content, dict)):
        return over
    merged = dict(base.content)
    for name, value in over.content.items():
        if _given(value):
            merged = _displaced(merged, name, schema)
    for name, value in over.content.items():
        inner = below(schema, name)
        merged[name] = merge(merged[name], value, inner) if name in merged else value
    return replace(over, content=merged)


def put(base: Value, name: str, value: Value, schema: Any) -> Value:
    """A section with one entry set; an alternative that the same layer gave stays, and is refused
    later as a contradiction."""
    entries = base.entries
    if _given(value):
        kept = {key: entry for key, entry in entries.items() if _same_layer(entry, value)}
        entries = {**_displaced(entries, name, schema), **kept}
    order = [*base.entries, name]
    result = {**entries, name: value}
    return replace(base, content={key: result[key] for key in order if key in result})


def _displaced(entries: dict[str, Value], name: str, schema: Any) -> dict[str, Value]:
    model = section(schema)
    alternatives = model.alternatives if model is not None else ()
    if name not in (group[0] for group in alternatives):
        return entries
    gone = {key for group in alternatives if group[0] != name for key in group}
    return {key: entry for key, entry in entries.items() if key not in gone}


def _given(value: Value) -> bool:
    return value.content is not None and value.content is not False


def _same_layer(one: Value, other: Value) -> bool:
    return one.origin.layer == other.origin.layer
