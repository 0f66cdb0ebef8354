"""What was found out about releases, in lines for people: differences, and what was removed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.report import unreached

PARTS = {
    "made_from": "built from",
    "packages": "packages",
    "config": "profile",
    "figures": "figures",
}


def diff_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Two releases side by side, only what differs; figures always."""
    return unreached.each(document, _diff)


def _diff(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"{host['host']}  {host['old']} -> {host['new']}"
    for release, error in host["failed"].items():
        yield f"  {release} failed: {error}"
    for part, title in PARTS.items():
        if host[part]:
            yield f"  {title}"
        for change in host[part]:
            yield f"    {change['what']}: {_value(change['old'])} -> {_value(change['new'])}"
    if not any(host[part] for part in ("made_from", "packages", "config")):
        yield "  built from the same sources with the same profile"


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, float):
        return f"{value:.3f}"
    return value if isinstance(value, str) else json.dumps(value)


def gc_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What was removed, and how much that freed."""
    word = "would remove" if document["dry_run"] else "removed"
    return unreached.each(document, lambda host: _removed(host, word))


def _removed(host: Mapping[str, Any], word: str) -> Iterator[str]:
    yield host["host"]
    for one in host["removed"]:
        name = f"{one['profile']}/{one['name']}" if one["profile"] else one["name"]
        failed = f", FAILED: {one['error']}" if one["error"] else ""
        yield f"  {word} {one['kind']} {name}  {_size(one['bytes'])}  ({one['why']}{failed})"
    yield f"  {word} {_size(host['bytes'])} in all"


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
