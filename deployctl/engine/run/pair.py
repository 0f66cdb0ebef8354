"""A run in one of two units beside each other: clients are led to it once it has passed, and then
the other one ends; what fails is ended without a client having seen it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl import cancel, redaction
from deployctl.agent.wire.answers import UnitState
from deployctl.cancel import Cancelled
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger.record import RunRecord, StepRecord
from deployctl.engine.run import events, interruption, recovery
from deployctl.engine.run.execute import Work
from deployctl.engine.run.front import LEDGER, Front
from deployctl.engine.run.plan import HostPlan
from deployctl.engine.run.resting import WAKE, Resting, how, why_not
from deployctl.engine.strategies.blue_green import other
from deployctl.engine.strategies.interface import Handover
from deployctl.engine.strategies.registry import strategy
from deployctl.errors import DeployError, Interrupted
from deployctl.hosts.operations import releases, units
from deployctl.steps import registry
from deployctl.steps.identity import SLOTS
from deployctl.steps.interface import SERVER, Answers, Deployment
from deployctl.steps.servers import in_flight, siblings
from deployctl.steps.servers.process import RUNNING

SWITCHING = "switch"


@dataclass
class Pair:
    """The two units of a profile on one host, and the front before them."""

    front: Front
    found: Mapping[str, UnitState]
    """The state of every unit when the run began."""
    ledger: Sequence[Mapping[str, Any]]
    handover: Handover
    current: str | None = None
    """The release of the unit that served when the run began."""
    resting: Resting | None = None
    """That unit, where it makes way for its successor on the same GPUs."""
    how: str = ""
    """Whether it sleeps meanwhile, in words."""

    @classmethod
    def of(cls, front: Front, answers: Answers) -> Pair:
        """The pair as these answers show it; which unit is worked in is not settled yet."""
        found, entries = answers[siblings.UNITS], answers[LEDGER]
        return cls(front, found, entries, Handover(front.live or SLOTS[0], routed=True))

    @property
    def serving(self) -> UnitState:
        """The state of the unit that served when the run began."""
        return self.found.get(self.front.live or "") or siblings.ABSENT

    def rest(self, wanted: Deployment, answers: Answers, serves: Answers) -> None:
        """Settle whether the unit that serves sleeps while the other one is started, which is
        `wanted`; `serves` is what is known of the one that serves."""
        retires, sleeps = self.handover.retires, strategy(self.front.wanted.profile).sleeps
        if retires is None or self.current is None or not sleeps:
            return
        serving = siblings.of_unit(self.front.wanted, retires).unit_id
        why = why_not(self.front.session, serving, wanted, answers)
        self.how = how(self.current, why)
        able, unit = not why, self.handover.unit
        self.resting = Resting(self.front, retires, unit, serves, self.current, able)

    def recover(self, work: Work, plan: HostPlan, dead: recovery.Dead | None) -> None:
        """Wake what a run left asleep, unless this one goes on with its successor, which runs."""
        live, serving = self.front.live, self.serving
        if live is None:
            return
        turned = self.front.held or self.front.target != live
        resting = self.resting if work.beside and plan.has(SERVER) else None
        if not serving.get("asleep"):
            if turned and (resting is None or serving["state"] in RUNNING):
                self.front.lead(live)
            elif resting is not None:
                resting.begun = turned
            return
        found = self.found.get(other(live)) or siblings.ABSENT
        goes_on = found["state"] in RUNNING and found["release"] == plan.release
        back = dead is not None and dead.phase == "restoring"
        if resting is not None and goes_on and not back:
            resting.begun = True
            return
        why = recovery.sentence(dead) if dead else "its successor has not passed"
        note = f"waking release {self.current}: {why}"
        work.listen(events.StepNote(work.record.host, WAKE, note))
        left = Resting(self.front, live, other(live), work.answers, self.current)
        with cancel.shielded():
            left.wake_or_stop(work, why)

    def hand_over(self, run: RunRecord, work: Work) -> None:
        """Lead clients to what has passed, and end what served before once its requests have
        ended, or their time is over."""
        record, retires = work.record, self.handover.retires
        try:
            entry = redaction.document(ledger.phase(run, record, "switching", step=SWITCHING))
            profile = work.wanted.profile.name
            work.connected.session.call(releases.record, profile=profile, entry=entry)
            began = time.monotonic()
            self.front.add(self.handover.unit)
            self._stand(work)
            evidence: dict[str, Any] = {"slot": self.handover.unit, "before": retires}
            if retires is not None:
                evidence |= self._retire(work, retires, drain=self.resting is None)
            seconds = time.monotonic() - began
            record.steps.append(StepRecord(SWITCHING, "changed", seconds, evidence))
            record.changed = True
        except DeployError as error:
            record.error = error
        except Cancelled:
            record.error = self._cut_short(f"interrupted while turning to {self._named(work)}")

    def give_up(
        self, run: RunRecord, work: Work, plan: HostPlan, failure: DeployError, keep: bool
    ) -> None:
        """End what failed, unless it is to be kept. Where its server had been started, what serves
        goes on as after a rollback."""
        record, slept = work.record, self.resting is not None and self.resting.begun
        try:
            if self.resting is not None and slept and keep:
                self.front.lead(self.handover.unit)
            elif self.resting is not None and slept:
                self.resting.go_back(run, work, plan, failure)
            elif plan.has(SERVER) and not keep:
                self._retire(work, self.handover.unit, drain=False)
        except DeployError as error:
            record.rollback_error = error
        except Cancelled:
            record.error = self._cut_short("interrupted again")
            return
        if isinstance(failure, Interrupted) and plan.has(SERVER):
            record.error = self._cut_short(failure.what)
        if slept:
            return
        past = {s.step for s in record.steps if s.attempted and s.status != "skipped"}
        if self.front.live is not None and past & registry.makers(SERVER):
            unit = self._state(self.front.live)
            record.restored = bool(unit["state"] == "running" and unit["kept"])
            record.still_serving = str(unit["release"]) if unit["state"] in RUNNING else None

    def settle(self, work: Work) -> None:
        """Leave nothing but the unit that serves and the front before it."""
        if work.beside or self.front.live is None:
            return
        try:
            self._retire(work, other(self.front.live), drain=False)
            self._stand(work)
        except DeployError as error:
            work.record.error = work.record.error or error

    def _stand(self, work: Work) -> None:
        if self.front.stands:
            return
        began, record = time.monotonic(), work.record
        evidence = self.front.stand()
        seconds = time.monotonic() - began
        record.steps.append(StepRecord("front", "changed", seconds, evidence))
        record.changed = True
        work.downtime.closed += self.front.gaps

    def _retire(self, work: Work, unit: str, drain: bool) -> dict[str, Any]:
        """Stop a unit's server; with `drain` once its requests have ended or their time is over."""
        host = work.record.host

        def show(left: int | None) -> None:
            many = "an unknown number of requests" if left is None else f"{left}"
            detail = f"{many} in flight"
            work.listen(events.StepProgress(host, SWITCHING, "drain", detail, None))

        wanted = siblings.of_unit(self.front.wanted, unit)
        within = self.front.wanted.profile.switch.drain if drain else 0.0
        return in_flight.stop_drained(self.front.session, wanted, within, show)

    def _state(self, unit: str) -> UnitState:
        about = siblings.of_unit(self.front.wanted, unit).unit_id
        return self.front.session.call(units.state, **about)

    def _named(self, work: Work) -> str:
        return f"slot {work.wanted.unit}"

    def _cut_short(self, what: str) -> Interrupted:
        wanted, session = self.front.wanted, self.front.session
        with cancel.shielded():
            left = [
                f"slot {one}: "
                + interruption.left_behind(session, siblings.of_unit(wanted, one).unit_id)
                for one in SLOTS
            ]
        live = self.front.live
        leads = f"the front leads to slot {live}" if live else "no slot was turned to"
        host = wanted.host.name
        return Interrupted(
            what if what.startswith(host) else f"{host}: {what}",
            "; ".join([leads, *left]),
            f"run: deployctl up --profile {wanted.profile.name} (it ends what is left over)",
        )
