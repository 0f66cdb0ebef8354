"""One placement's part of a run: lock, ask, plan, stage, stop and start, gates, commit or restore.

A worker runs in a thread of its own, from the first to the last phase. Where a group or a wave has
to wait for others, it waits in `turns`; an interrupt reaches it through `cancel`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from deployctl import cancel, redaction
from deployctl.agent.wire.answers import Recorded
from deployctl.cancel import Cancelled
from deployctl.engine.connections.connect import Connected, connect
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger.record import outcome
from deployctl.engine.run import (
    events,
    interruption,
    recovery,
    rolled,
    switch,
    target,
    together,
)
from deployctl.engine.run.attempting import Attempting
from deployctl.engine.run.downtime import Downtime
from deployctl.engine.run.execute import Work, run_step
from deployctl.engine.run.members import BACK
from deployctl.engine.run.plan import (
    HostPlan,
    concerned,
    make,
    unanswered,
)
from deployctl.engine.run.turns import HeldBack
from deployctl.errors import (
    ConnectionLost,
    DeployError,
    Interrupted,
    LockHeld,
)
from deployctl.hosts.operations import releases
from deployctl.hosts.session import Call, known
from deployctl.steps.facts import UNIT, known_releases, known_unit
from deployctl.steps.interface import (
    SERVER,
    SERVICE,
    Answers,
    Deployment,
    Unanswered,
)
from deployctl.steps.member import PeerFailed
from deployctl.steps.servers.process import was_proven


@dataclass
class Worker(Attempting):
    """One placement's part of a run, and what it shares with the others."""

    def run(self) -> None:
        """From the connection to the last hooks; failures are in the record."""
        began, host = time.monotonic(), self.record.host
        try:
            connected = reach(self.wanted)
        except DeployError as error:
            self.record.error = error
            self.record.steps += self.hooks.finish(host, None)
            return
        with connected:
            try:
                self._reached(connected, began)
                self.meeting.serve(host, self.record.error)
            except Cancelled:
                stopped = interruption.cut_short(connected.session, self.wanted, self.begun)
                self.record.error = self.record.error or stopped
            finally:
                self.record.round_trips = connected.round_trips
                self.record.deliveries = self.meeting.deliveries(host)
            self.record.steps += self.hooks.finish(host, connected.session)

    def _reached(self, connected: Connected, began: float) -> None:
        try:
            answers = self.ask(connected)
            if self.options.only_if_changed:
                answers = self._unless_known_to_fail(connected, answers)
            self.listen(events.HostStarted(self.record.host, time.monotonic() - began))
            cancel.check()
            self._carry_out(connected, answers)
        except (PeerFailed, HeldBack) as error:
            self.record.held_back = str(error)
        except Unanswered as error:
            self.record.error = unanswered(self.record.host, error)
            self._note_refused(connected, self.record.error)
        except DeployError as error:
            self.record.error = error
            self._note_refused(connected, error)
        except Exception as error:
            self._note_refused(connected, error)
            raise

    def _note_refused(self, connected: Connected, error: Exception) -> None:
        """A run that ended before it began to work is in the ledger as well, once it was ours."""
        if self.begun or isinstance(error, LockHeld | ConnectionLost):
            return
        name = self.wanted.profile.name
        began = ledger.begun(
            self.run_record, self.record, self.wanted.profile, self.record.previous
        )
        ended = ledger.ended(self.run_record, self.record, "failed")
        ended["error"] = ended["error"] or f"{type(error).__name__}: {error}"
        with suppress(ConnectionLost):
            connected.session.ask([_record(name, began), _record(name, ended)])

    # -- plan --------------------------------------------------------------------------------

    def _carry_out(self, connected: Connected, answers: Answers) -> None:
        target.check_serving(self.steps, self.wanted, self.run_record.profile, answers)
        self.steps = concerned(self.steps, self.wanted, answers)
        plan = self._plan(answers)
        self.record.release = plan.release
        self.record.previous = plan.current if self.pair is None else self.pair.current
        unit = answers.get(UNIT)
        if self.record.declined:
            self.turns.decline(f"{self.record.host}: {self.record.declined}")
        self.turns.planned(self.record.host, plan.switches, bool(unit and was_proven(unit)))
        with ExitStack() as stack:
            work = Work(
                self.wanted,
                connected,
                answers,
                target.release(self.steps, self.wanted, answers),
                self.listen,
                self.record,
                stack,
                Downtime(),
                self.hooks,
                beside=self.pair is not None and self.pair.handover.unit != self.pair.front.live,
                courier=self.meeting,
                peers=self.members.at(self.record.host),
            )
            if self.pair is not None and self.pair.how:
                self.listen(events.StepNote(self.record.host, "switch", self.pair.how))
            self.meeting.attend(work.context("share"))
            self.record.release = work.release.release
            dead = self._close_dead(work)
            if self.pair is not None:
                self.pair.recover(work, plan, dead)
                work.resting = self.pair.resting
            if plan.idle and _points_right(work, plan) and not self.astray:
                for planned in plan.steps:
                    run_step(work, planned)
                rolled.settle(self.replica, work, plan)
            else:
                self._work(work, plan, dead)
            if self.pair is not None and plan.has(SERVER):
                self.pair.settle(work)
            if self.record.error is None and not self.record.held_back:
                rolled.stay(self.turns, self.record.host)
        names = [step.name for step in self.steps]
        self.record.note_skipped(names, self.wanted.skip, switch.RESTORED)

    def _plan(self, answers: Answers) -> HostPlan:
        """The plan; of a group all ranks start, or none does."""
        plan = make(self.steps, self.wanted, answers)
        why = together.why_all_start(self.members, self.record.host, plan)
        if why:
            self.wanted = replace(self.wanted, restart=why)
            plan = make(self.steps, self.wanted, answers)
        return together.checked(self.members, self.record.host, plan, self.astray)

    def _close_dead(self, work: Work) -> recovery.Dead | None:
        """Close the ledger's open entry; while we hold the lock, its run cannot be alive."""
        entries = known_releases(work.answers)["ledger"]
        dead = recovery.find(entries if self.pair is None else self.pair.ledger)
        if dead is not None:
            self.record.recovered_run = dead.run
            unit = known_unit(work.answers) if self.pair is None else self.pair.serving
            entry = recovery.closing(dead, self.run_record.run, unit["release"])
            (told,) = work.connected.session.ask((_record(self.wanted.profile.name, entry),))
            ago = recovery.without_service(dead, unit, told)
            if ago is not None and any(SERVICE in step.produces for step in self.steps):
                work.downtime.interrupted(ago)
            text = f"{recovery.sentence(dead)}: recovered"
            self.listen(events.StepNote(self.record.host, "ledger", text))
        return dead

    # -- stage, stop, start, gates -----------------------------------------------------------

    def _work(self, work: Work, plan: HostPlan, dead: recovery.Dead | None) -> None:
        session, name = work.connected.session, self.wanted.profile.name
        entry = ledger.begun(
            self.run_record, self.record, self.wanted.profile, self.record.previous
        )
        for answer in session.ask([_record(name, entry), *self._preparation(work, plan)]):
            known(answer)
        self.begun = True
        closing = "failed"
        try:
            self._attempt(work, plan, dead)
            rolled.settle(self.replica, work, plan)
            peers = self.members.at(self.record.host, BACK)
            rolled.go_back(self.run_record, work, plan, self.turns, self.replica, peers)
        except BaseException as error:
            stopped = isinstance(error, Cancelled | Interrupted)
            closing = "interrupted" if stopped else "failed"
            raise
        else:
            closing = outcome([self.record])[0]
        finally:
            self.record.outages = work.downtime.closed
            self.record.without_service = work.downtime.total()
            self.record.still_without_service = work.downtime.open
            with cancel.shielded():
                session.ask([_record(name, ledger.ended(self.run_record, self.record, closing))])

    def _preparation(self, work: Work, plan: HostPlan) -> list[Call[Any]]:
        if plan.impossible or not any(p.step.phase == "stage" for p in plan.steps):
            return []
        return [
            Call(
                releases.prepare,
                **work.release.unit_id,
                release=work.release.release,
                environment=work.release.environment_key,
            )
        ]


def reach(wanted: Deployment) -> Connected:
    """Connect to a host; an interrupt does not wait for one that is slow to answer."""
    return cancel.abandonable(lambda: connect(wanted.host), Connected.close)


def _points_right(work: Work, plan: HostPlan) -> bool:
    """Whether `current` names what serves; a run that died may have left it behind."""
    if not plan.has(SERVER):
        return True
    return plan.current == work.release.release


def _record(profile: str, entry: Mapping[str, Any]) -> Call[Recorded]:
    return Call(releases.record, profile=profile, entry=redaction.document(entry))
