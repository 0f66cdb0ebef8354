"""One host's part in a router's list over a run: out of it before anything that serves is touched,
in it again once what is current serves."""

from __future__ import annotations

import time
from typing import Any

from deployctl import cancel
from deployctl.config.profile import Profile
from deployctl.engine.ledger.record import StepRecord
from deployctl.engine.run import events
from deployctl.engine.run.execute import Work
from deployctl.engine.run.routing import Routing
from deployctl.errors import DeployError
from deployctl.hosts.operations import units
from deployctl.steps.facts import release_state
from deployctl.steps.routers.words import JOINS, LEAVES
from deployctl.steps.servers import in_flight
from deployctl.steps.servers.process import RUNNING, was_proven


class Replica:
    """What serves on one host, behind a router. The `last` one leaves that, too."""

    def __init__(self, routing: Routing, profile: Profile, last: bool = False) -> None:
        self._last = last
        self._routing = routing
        self._drain = profile.replicas.drain
        self._left = False

    def leave(self, work: Work) -> None:
        """Take it out of the router, and wait until its requests have ended, or their time is
        over."""
        self._left = True
        host, session, began = work.wanted.host, work.connected.session, time.monotonic()

        def show(left: int | None) -> None:
            many = "an unknown number of" if left is None else str(left)
            detail = f"{many} requests in flight"
            work.listen(events.StepProgress(host.name, LEAVES, "drain", detail, None))

        evidence: dict[str, Any] = {"removed": self._routing.leave(host, self._last)}
        unit = session.call(units.state, **work.wanted.unit_id)
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
        host, began = work.wanted.host, time.monotonic()
        session = work.connected.session
        unit = session.call(units.state, **work.wanted.unit_id)
        current = session.follow(release_state(work.wanted).call, None)["current"]
        if not (was_proven(unit) and unit["release"] == current):
            removed = self._routing.drop(host)
            if removed:
                self._note(work, LEAVES, began, {"removed": removed})
            return
        evidence = self._routing.join(host, unit)
        if evidence is not None:
            self._note(work, JOINS, began, evidence)
            work.record.changed = True

    def _note(self, work: Work, step: str, began: float, evidence: dict[str, Any]) -> None:
        record = StepRecord(step, "changed", time.monotonic() - began, evidence)
        work.record.steps.append(record)
        work.listen(events.StepEnded(work.wanted.host.name, record))
