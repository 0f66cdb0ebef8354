"""Hosts in lines for people; one that could not be reached shows why and does not affect the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Host = Mapping[str, Any]


def each(document: Mapping[str, Any], of_host: Callable[[Host], Iterable[str]]) -> Iterator[str]:
    """The lines of every host of a document, in its order."""
    for host in document["hosts"]:
        yield from _lines(host) if host.get("error") else of_host(host)


def _lines(host: Host) -> Iterator[str]:
    error = host["error"]
    yield f"{host['host']}  unknown"
    yield f"  error: {error['what']}"
    yield from (f"    why: {line}" for line in error["why"].splitlines())
    if error["next"]:
        yield f"    next: {error['next']}"
