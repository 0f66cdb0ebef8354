"""The end of a profile's server, and what was cut off by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.agent.wire.answers import UnitStopped
from deployctl.config.profile import Profile
from deployctl.hosts.operations import units
from deployctl.hosts.session import Session

REQUESTS = "stopped_requests"
"""In evidence: how many requests a stop found in flight, and how many it cut off."""


def reachable(host: str) -> str:
    """An address, as an URL has it, at which the host itself reaches what listens on `host`."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{address}]" if ":" in address else address


def stop_unit(session: Session, profile: Profile) -> UnitStopped:
    """Stop the profile's own server; what `units.stop` answers."""
    serve = profile.serve
    return session.call(
        units.stop,
        name=profile.name,
        grace=serve.stop_grace,
        load=f"http://{reachable(serve.host)}:{serve.port}/load",
    )


def cut_off(evidences: Iterator[Mapping[str, Any]]) -> int | None:
    """How many requests the stops of a run cut off; None where nothing was stopped that counts
    its requests."""
    known = [count for evidence in evidences if (count := _cut_off(evidence)) is not None]
    return sum(known) if known else None


def _cut_off(evidence: Mapping[str, Any]) -> int | None:
    """A gate's evidence has requests of its own, and their number."""
    found = evidence.get(REQUESTS)
    return found.get("cut_off") if isinstance(found, Mapping) else None


def in_words(evidence: Mapping[str, Any]) -> str:
    """What a stop cut off, for people; empty where nothing was, or it is not known."""
    count = _cut_off(evidence)
    if not count:
        return ""
    return f"{count} request{'s' if count > 1 else ''} cut off"
