"""One placement's part of a run: lock, ask, plan, stage, stop and start, gates, commit or restore.

A worker runs in a thread of its own, from the first to the last phase. Where a group or a wave has
to wait for others, it waits in `turns`; an interrupt reaches it through `cancel`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from deployctl import cancel, redaction
from deployctl.agent.wire.answers import Recorded
from deployctl.cancel import Cancelled
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger import lock, rollback
from deployctl.engine.run import events, failed_release, interruption, recovery, switch, target
from deployctl.engine.run.commit import commit
from deployctl.engine.run.connect import Connected, connect
from deployctl.engine.run.downtime import Downtime
from deployctl.engine.run.execute import Work, run_step
from deployctl.engine.run.hooks import Hooks
from deployctl.engine.run.options import Options
from deployctl.engine.run.plan import (
    HostPlan,
    ask,
    make,
    needs_release,
    questions,
    unanswered,
    wanted_release,
)
from deployctl.engine.run.record import HostRecord, RunRecord, outcome
from deployctl.engine.run.resolve import Resolution, settle
from deployctl.engine.run.turns import HeldBack, Turns
from deployctl.engine.shipping.meeting import Meeting
from deployctl.errors import (
    ConnectionLost,
    DeployError,
    HostError,
    Interrupted,
    LockHeld,
    RemoteError,
)
from deployctl.hosts.operations import releases
from deployctl.hosts.session import Call, known
from deployctl.steps.facts import RELEASES, UNIT, known_releases, known_unit
from deployctl.steps.interface import (
    SERVER,
    SERVICE,
    Answers,
    Deployment,
    Question,
    Step,
    Unanswered,
)
from deployctl.steps.servers.process import was_proven


@dataclass
class Worker:
    """One placement's part of a run, and what it shares with the others."""

    run_record: RunRecord
    record: HostRecord
    wanted: Deployment
    steps: Sequence[Step]
    options: Options
    listen: events.Listener
    hooks: Hooks
    resolution: Resolution
    turns: Turns
    meeting: Meeting
    begun: bool = False
    """Whether the ledger has this run."""

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
                session, name = connected.session, self.wanted.profile.name
                stopped = interruption.cut_short(host, session, name, self.begun)
                self.record.error = self.record.error or stopped
            finally:
                self.record.round_trips = connected.round_trips
                self.record.deliveries = self.meeting.deliveries(host)
            self.record.steps += self.hooks.finish(host, connected.session)

    def _reached(self, connected: Connected, began: float) -> None:
        try:
            answers = self._ask(connected)
            if self.options.only_if_changed:
                answers = self._unless_known_to_fail(connected, answers)
            self.listen(events.HostStarted(self.record.host, time.monotonic() - began))
            cancel.check()
            self._carry_out(connected, answers)
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

    # -- lock and ask ------------------------------------------------------------------------

    def _ask(self, connected: Connected) -> Answers:
        """Take the lock and ask everything, in one round trip where the lock is free."""
        asked = questions(self.steps, self.wanted)
        if self.options.release:
            asked = {RELEASES: asked[RELEASES]}
        answers = self._locked(connected, asked)
        slots = self.turns.slots
        self.wanted, answers = settle(
            self.resolution, connected, self.steps, self.wanted, asked, answers, slots
        )
        if not self.options.release:
            self.wanted, answers = self.meeting.settle(connected, self.steps, self.wanted, answers)
            return answers
        answers = self._pin(connected, answers, self.options.release)
        rollback.refuse_damaged(self.wanted, answers[RELEASES])
        return answers

    def _locked(self, connected: Connected, asked: Mapping[str, Question[Any]]) -> Answers:
        """Take the lock and ask in the same round trip, where the lock is free and in no order."""
        name, run = self.wanted.profile.name, self.run_record
        take = lock.take(name, run.run, playbook=run.playbook)
        moving = any(question.moving for question in asked.values())
        in_order = self.options.lock_wait > 0 and self.turns.bound(moving)
        if in_order:
            self.turns.lock(self.record.host)
        answers, (taken,) = ask(connected, {} if in_order else asked, [take])
        if isinstance(taken, RemoteError):
            self._wait(connected, taken)
        self.turns.locked(self.record.host)
        if in_order or isinstance(taken, RemoteError):
            # What was answered before the other run ended is stale by the time we hold the lock.
            answers, _ = ask(connected, asked)
        return answers

    def _pin(self, connected: Connected, answers: Answers, release: str) -> Answers:
        """Turn to an earlier release: nothing is staged for it, and its questions are its own."""
        self.wanted = rollback.pin(self.wanted, answers[RELEASES], release)
        self.record.earlier = True
        self.steps = [step for step in self.steps if step.phase != "stage"]
        return ask(connected, questions(self.steps, self.wanted))[0]

    def _unless_known_to_fail(self, connected: Connected, answers: Answers) -> Answers:
        """Turn to what is current where the wanted release failed before; it may need healing."""
        release = wanted_release(self.wanted, answers) if needs_release(self.steps) else None
        found = known_releases(answers)
        digest = ledger.profile_digest(self.wanted.profile)
        before = ledger.failed_before(found["ledger"], release, digest)
        if before is None or found["current"] in (None, release):
            return answers
        text = f"release {release} failed in run {before}: not retried, nothing changed since"
        self.record.declined = text
        self.listen(events.StepNote(self.record.host, "ledger", text))
        return self._pin(connected, answers, "current")

    def _wait(self, connected: Connected, taken: RemoteError) -> None:
        if taken.kind != "locked":
            raise taken
        if not self.options.lock_wait:
            raise lock.held(self.record.host, taken)
        self.listen(events.Waiting(self.record.host, lock.describe(taken.detail or {})))
        # The others do not stay for as long as that may take; it shares with those still to come.
        self.meeting.left(self.record.host)
        name, run = self.wanted.profile.name, self.run_record
        waited = lock.take(name, run.run, self.options.lock_wait, run.playbook)
        with self.turns.slots.given():
            (again,) = connected.session.ask([waited])
        if isinstance(again, RemoteError):
            raise lock.held(self.record.host, again)

    # -- plan --------------------------------------------------------------------------------

    def _carry_out(self, connected: Connected, answers: Answers) -> None:
        target.check_serving(self.steps, self.wanted, self.run_record.profile, answers)
        plan = make(self.steps, self.wanted, answers)
        self.record.release = plan.release
        self.record.previous = plan.current
        unit = answers.get(UNIT)
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
                courier=self.meeting,
            )
            self.meeting.attend(work.context("share"))
            self.record.release = work.release.release
            dead = self._close_dead(work)
            if plan.idle and _points_right(work, plan):
                for planned in plan.steps:
                    run_step(work, planned)
            else:
                self._work(work, plan, dead)
        names = [step.name for step in self.steps]
        self.record.note_skipped(names, self.wanted.skip, switch.RESTORED)

    def _close_dead(self, work: Work) -> recovery.Dead | None:
        """Close the ledger's open entry; while we hold the lock, its run cannot be alive."""
        dead = recovery.find(known_releases(work.answers)["ledger"])
        if dead is not None:
            self.record.recovered_run = dead.run
            unit = known_unit(work.answers)
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
        entry = ledger.begun(self.run_record, self.record, self.wanted.profile, plan.current)
        for answer in session.ask([_record(name, entry), *self._preparation(work, plan)]):
            known(answer)
        self.begun = True
        closing = "failed"
        try:
            self._attempt(work, plan, dead)
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

    def _attempt(self, work: Work, plan: HostPlan, dead: recovery.Dead | None) -> None:
        if dead is not None and recovery.must_go_back(dead, work.release.release, plan.current):
            failure: DeployError | None = HostError(
                self.record.host,
                f"release {dead.release} failed, and {recovery.sentence(dead)}",
                dead.why,
                "its rollback was finished; run again to retry that release",
            )
        else:
            try:
                failure = self._carry_out_steps(work, plan)
            except HeldBack as error:
                self.record.held_back = str(error)
                return
        if failure is None:
            with cancel.shielded():
                commit(self.run_record, work, plan)
            return
        self.record.error = failure
        failed_release.keep(self.run_record, work, failure)
        astray = dead is not None and dead.phase != "staging"
        if not switch.may_restore(work, plan, failure, astray) or self.options.keep_failed:
            self.record.error = interruption.told(work, plan, failure)
            if plan.has(SERVER):
                self.record.still_serving = interruption.still_serving(work)
            return
        try:
            switch.restore(self.run_record, work, plan, failure.what)
        except Cancelled:
            raise interruption.interrupted_twice(work, plan) from None

    def _carry_out_steps(self, work: Work, plan: HostPlan) -> DeployError | None:
        if plan.impossible is not None:
            return run_step(work, plan.impossible).error
        try:
            return switch.carry_out(self.run_record, work, plan, self._turn)
        except DeployError as error:
            # Of no step: the ledger that cannot be written, say. It leads back like any failure.
            return error
        except Cancelled:
            at = f" in {self.record.steps[-1].step}" if self.record.steps else ""
            return Interrupted(
                f"{self.record.host}: interrupted{at}",
                next=interruption.goes_on(work),
            )

    def _turn(self) -> None:
        """Everything is staged: wait for the wave in which this group switches."""
        self.turns.switch(self.record.host)

    def _preparation(self, work: Work, plan: HostPlan) -> list[Call[Any]]:
        if plan.impossible or not any(p.step.phase == "stage" for p in plan.steps):
            return []
        return [
            Call(
                releases.prepare,
                profile=self.wanted.profile.name,
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
