"""The end of a profile's server, and what was cut off by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from deployctl.agent.wire.answers import Requests, UnitState, UnitStopped
from deployctl.config.profile import Profile
from deployctl.config.serve import own_address
from deployctl.hosts.operations import units
from deployctl.hosts.session import Session
from deployctl.steps.identity import UnitId
from deployctl.steps.interface import Deployment
from deployctl.vllm.serving.command import counts_requests

REQUESTS = "stopped_requests"
"""In evidence: how many requests a stop found in flight, and how many it cut off."""


def reachable(host: str) -> str:
    """An address, as an URL has it, at which the host itself reaches what listens on `host`."""
    address = own_address(host)
    return f"[{address}]" if ":" in address else address


def base_url(profile: Profile) -> str:
    """The URL at which the host itself reaches the profile's server."""
    return f"http://{reachable(profile.serve.host)}:{profile.serve.port}"


def listens_at(unit: UnitState) -> str | None:
    """The URL of a running unit's server; None where it is not a server."""
    return listening(unit.get("argv") or ())


def listening(argv: Sequence[str]) -> str | None:
    """The URL of a server by its own command line: the profile may name another port by now. None
    where it names none."""
    given = dict(pairwise(argv))
    if "--host" not in given or "--port" not in given:
        return None
    return f"http://{reachable(given['--host'])}:{given['--port']}"


def stop_unit(session: Session, wanted: Deployment, spare: bool = False) -> UnitStopped:
    """Stop the wanted unit's server; what `units.stop` answers. `spare` leaves what waits to serve
    next."""
    return stop_named(session, wanted.unit_id, wanted.profile.serve.stop_grace, spare)


def stop_named(session: Session, unit: UnitId, grace: float, spare: bool = False) -> UnitStopped:
    """Stop a unit and count the requests that this cuts off; what `units.stop` answers."""
    now = session.call(units.state, **unit)
    url = listens_at(now) if counts_requests(now.get("argv") or ()) else None
    load = f"{url}/load" if url else ""
    return session.call(units.stop, **unit, grace=grace, load=load, spare=spare)


def cut_off(evidences: Iterable[Mapping[str, Any]]) -> int | None:
    """How many requests the stops of a run cut off; None where nothing was stopped that counts
    its requests."""
    return _sum(map(_cut_off, evidences))


def _cut_off(evidence: Mapping[str, Any]) -> int | None:
    """A gate's evidence has requests of its own, and their number."""
    found = evidence.get(REQUESTS)
    return found.get("cut_off") if isinstance(found, Mapping) else None


def together(stops: Iterable[UnitStopped]) -> Requests:
    """The requests of several stops; None where none of them counts."""
    found = [stopped["requests"] for stopped in stops]
    return {
        "in_flight": _sum([one["in_flight"] for one in found]),
        "cut_off": _sum([one["cut_off"] for one in found]),
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    """All counts that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def in_words(evidence: Mapping[str, Any]) -> str:
    """What a stop cut off, for people; empty where nothing was, or it is not known."""
    count = _cut_off(evidence)
    if not count:
        return ""
    return f"{count} request{'s' if count > 1 else ''} cut off"
