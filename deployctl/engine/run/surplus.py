"""Replicas that a host has and its profile has not: the host's first replica ends them."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from deployctl.config.host import SEPARATOR
from deployctl.engine.ledger.record import StepRecord
from deployctl.engine.run import events
from deployctl.engine.run.execute import Work
from deployctl.engine.run.routing import Routing, Spot
from deployctl.hosts.operations import units
from deployctl.hosts.session import Call
from deployctl.steps.routers.words import LEAVES
from deployctl.steps.servers import in_flight, siblings
from deployctl.steps.servers.stopping import listens_at


def end(work: Work, routing: Routing | None) -> None:
    """Take them out of the router, and stop each once its requests have ended, or their time is
    over."""
    wanted, session = work.wanted, work.connected.session
    known = work.answers.get(siblings.UNITS) or {}
    if not siblings.surplus(wanted, known):
        return
    listing = Call(units.listing, profile=wanted.profile.name)
    found = session.follow(listing, None)

    def show(left: int | None) -> None:
        many = "an unknown number of" if left is None else str(left)
        detail = f"{many} requests in flight"
        work.listen(events.StepProgress(wanted.host.name, LEAVES, "drain", detail, None))

    for unit in siblings.surplus(wanted, found):
        began, at = time.monotonic(), urlsplit(listens_at(found[unit]) or "").port
        other = wanted.host.model_copy(update={"name": f"{wanted.host.machine}{SEPARATOR}0"})
        spot = Spot(other, frozenset((at,) if at else ()))
        removed = routing.drop(spot) if routing is not None else []
        within = wanted.profile.replicas.drain
        stopped = in_flight.stop_drained(session, siblings.of_unit(wanted, unit), within, show)
        evidence = {"unit": unit, "removed": removed, **stopped, "in_flight": stopped["cut_off"]}
        record = StepRecord(LEAVES, "changed", time.monotonic() - began, evidence)
        work.record.steps.append(record)
        work.record.changed = True
        work.listen(events.StepEnded(wanted.host.name, record))
