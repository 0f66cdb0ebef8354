"""What a replica does at its router in a run, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LEAVES, JOINS = "leave", "join"
"""The names of this in a record of a run."""


def sentence(step: Mapping[str, Any]) -> str:
    """What one of these did, from its entry in a report; empty for any other step."""
    found: Mapping[str, Any] = step.get("evidence") or {}
    if step["step"] == JOINS and "replica" in found:
        return f"{found['replica']} is in the router and healthy"
    if step["step"] != LEAVES or "removed" not in found:
        return ""
    out = "out of the router" if found["removed"] else "not in the router"
    if "drained" not in found:
        return out
    left = found.get("in_flight")
    many = "an unknown number of" if left is None else left
    rest = "its requests have ended" if left == 0 else f"{many} requests were in flight at the end"
    return f"{out}; {rest}, after {found['drained']:.1f} s"


def others_served(steps: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a host's requests went to other replicas while nothing served on it."""
    return any(
        step["step"] == LEAVES and (step.get("evidence") or {}).get("removed") for step in steps
    )
