"""`host explain` in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

WORDS = {
    "deployctl": "a connection of deployctl's own",
    "ssh": "the ssh program is the transport",
    "refused": "refused before connecting",
}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Each way, why it is that, and its options by what becomes of them."""
    if not document["ways"]:
        yield f"{document['host']}: it is not reached by SSH"
    for way in document["ways"]:
        place = f"{way['user']}@{way['hostname']} port {way['port']}"
        yield f"{way['host']}: {place}: {WORDS[way['way']]}"
        yield from (f"  because of {reason}" for reason in way["because"])
        for verdict in ("refused", "unknown", "honoured", "harmless"):
            for one in way["options"]:
                if one["verdict"] == verdict:
                    by = f" by {one['by']}" if one["by"] else ""
                    why = f": {one['why']}" if one["why"] else ""
                    yield f"  {verdict + by:<22} {one['option']} {one['value'][:100]}{why}"
