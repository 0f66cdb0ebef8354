"""One host's part in a router's list over a run: out of it before anything that serves is touched,
in it again once what is current serves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from deployctl import cancel
from deployctl.agent.wire.answers import UnitState
from deployctl.config.profile import Profile
from deployctl.engine.ledger.record import StepRecord
from deployctl.engine.run import events
from deployctl.engine.run.execute import Work
from deployctl.engine.run.routing import Routing, Spot
from deployctl.errors import DeployError
from deployctl.hosts.operations import units
from deployctl.hosts.session import Call
from deployctl.steps.facts import release_state
from deployctl.steps.identity import replica_unit
from deployctl.steps.routers.words import JOINS, LEAVES
from deployctl.steps.servers import in_flight, siblings
from deployctl.steps.servers.process import RUNNING, was_proven
from deployctl.steps.servers.stopping import listens_at


class Replica:
    """What serves on one host, behind a router. The `last` one leaves that, too."""

    def __init__(self, routing: Routing, profile: Profile, last: bool = False) -> None:
        self._last = last
        self.routing = routing
        self._profile, self._drain = profile, profile.replicas.drain
        self._left = False

    def leave(self, work: Work) -> None:
        """Take it out of the router, and wait until its requests have ended, or their time is
        over."""
        self._left = True
        host, session, began = work.wanted.host, work.connected.session, time.monotonic()
        found = self._units(work)

        def show(left: int | None) -> None:
            many = "an unknown number of" if left is None else str(left)
            detail = f"{many} requests in flight"
            work.listen(events.StepProgress(host.name, LEAVES, "drain", detail, None))

        spot = self._spot(work, found)
        evidence: dict[str, Any] = {"removed": self.routing.leave(spot, self._last)}
        unit = found.get(work.wanted.unit) or siblings.ABSENT
        if unit["state"] in RUNNING:
            started = time.monotonic()
            left = in_flight.drain(session, work.wanted, unit, self._drain, show)
            evidence |= {"drained": round(time.monotonic() - started, 2), "in_flight": left}
        if evidence["removed"] or len(evidence) > 1:
            self._note(work, LEAVES, began, evidence)

    def settle(self, work: Work) -> None:
        """In the list where what is current serves and was proven, else out of it. What fails
        here is the host's failure, where it has no other. What failed in staging changes nothing
        at a router, which may not be there yet."""
        ended = work.record.error is not None or bool(work.record.held_back)
        if ended and not self._left:
            return
        try:
            with cancel.shielded():
                self._settle(work)
        except DeployError as error:
            work.record.error = work.record.error or error

    def _settle(self, work: Work) -> None:
        began, session = time.monotonic(), work.connected.session
        found = self._units(work)
        unit, spot = found.get(work.wanted.unit) or siblings.ABSENT, self._spot(work, found)
        current = session.follow(release_state(work.wanted).call, None)["current"]
        if not (was_proven(unit) and unit["release"] == current):
            removed = self.routing.drop(spot)
            if removed:
                self._note(work, LEAVES, began, {"removed": removed})
            return
        evidence = self.routing.join(spot, unit)
        if evidence is not None:
            self._note(work, JOINS, began, evidence)
            work.record.changed = True

    @staticmethod
    def _units(work: Work) -> Mapping[str, UnitState]:
        """Every unit of the profile on this machine."""
        listing = Call(units.listing, profile=work.wanted.profile.name)
        return work.connected.session.follow(listing, None)

    def _spot(self, work: Work, found: Mapping[str, UnitState]) -> Spot:
        """Where this replica and its neighbours listen, as wanted and as they run."""
        host, ports = work.wanted.host, dict[str, set[int]]()
        for one in self._profile.everywhere:
            if one.machine == host.machine:
                own = ports.setdefault(replica_unit(one.replica), set())
                own.add(self._profile.of_replica(one).serve.port)
        for unit in ports:
            at = urlsplit(listens_at(found.get(unit) or siblings.ABSENT) or "")
            ports[unit] |= {at.port} if at.port else set()
        own = ports.pop(replica_unit(host.replica), set())
        others = frozenset[int]().union(*ports.values()) - own
        return Spot(host, frozenset(own), others)

    def _note(self, work: Work, step: str, began: float, evidence: dict[str, Any]) -> None:
        record = StepRecord(step, "changed", time.monotonic() - began, evidence)
        work.record.steps.append(record)
        work.listen(events.StepEnded(work.wanted.host.name, record))
