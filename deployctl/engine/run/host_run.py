"""One host's part of a run: under its lock, from the questions to the sealed release."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from deployctl.config import redaction
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger import lock, rollback
from deployctl.engine.run import events, failed_release, interruption, recovery, switch
from deployctl.engine.run import target as subject
from deployctl.engine.run.commit import complete
from deployctl.engine.run.connect import Connected, connect
from deployctl.engine.run.downtime import Gaps
from deployctl.engine.run.execute import Work, run_step
from deployctl.engine.run.hooks import Hooks
from deployctl.engine.run.interrupts import Interrupts
from deployctl.engine.run.options import Options
from deployctl.engine.run.plan import (
    RELEASES,
    HostPlan,
    ask,
    make,
    needs_release,
    questions,
    unanswered,
    wanted_release,
)
from deployctl.engine.run.record import HostRecord, RunRecord, outcome
from deployctl.errors import (
    ConnectionLost,
    DeployError,
    HostError,
    Interrupted,
    LockHeld,
    RemoteError,
)
from deployctl.hosts.session import Call
from deployctl.steps.interface import (
    SERVER,
    SERVICE,
    Answers,
    Deployment,
    Step,
    Unanswered,
)


@dataclass
class HostRun:
    """One host's part of a run."""

    run_record: RunRecord
    record: HostRecord
    wanted: Deployment
    steps: Sequence[Step]
    options: Options
    listen: events.Listener
    interrupts: Interrupts
    hooks: Hooks
    begun: bool = False
    """Whether the ledger has this run."""

    def run(self) -> None:
        began, host = time.monotonic(), self.record.host
        try:
            connected = connect(self.wanted.host)
        except DeployError as error:
            self.record.error = error
            self.record.steps += self.hooks.finish(host, None)
            return
        with connected:
            try:
                self._reached(connected, began)
            except KeyboardInterrupt:
                session, name = connected.session, self.wanted.profile.name
                stopped = interruption.cut_short(host, session, name, self.begun)
                self.record.error = self.record.error or stopped
            finally:
                self.record.round_trips = connected.round_trips
            self.record.steps += self.hooks.finish(host, connected.session)

    def _reached(self, connected: Connected, began: float) -> None:
        try:
            answers = self._ask(connected)
            if self.options.only_if_changed:
                answers = self._unless_known_to_fail(connected, answers)
            self.listen(events.HostStarted(self.record.host, time.monotonic() - began))
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

    def _ask(self, connected: Connected) -> Answers:
        """Take the lock and ask everything, in one round trip where the lock is free."""
        asked = questions(self.steps, self.wanted)
        if self.options.release:
            asked = {RELEASES: asked[RELEASES]}
        name, run = self.wanted.profile.name, self.run_record
        take = lock.take(name, run.run, playbook=run.playbook)
        answers, (taken,) = ask(connected, asked, [take])
        if isinstance(taken, RemoteError):
            self._wait(connected, taken)
            # What was answered before the other run ended is stale by the time we hold the lock.
            answers, _ = ask(connected, asked)
        if not self.options.release:
            return answers
        answers = self._pin(connected, answers, self.options.release)
        rollback.refuse_damaged(self.wanted, answers[RELEASES])
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
        found = answers.get(RELEASES) or {}
        digest = ledger.profile_digest(self.wanted.profile)
        before = ledger.failed_before(found.get("ledger") or [], release, digest)
        if before is None or found["current"] in (None, release):
            return answers
        text = f"release {release} failed in run {before}: not tried again, nothing changed since"
        self.record.declined = text
        self.listen(events.StepNote(self.record.host, "ledger", text))
        return self._pin(connected, answers, "current")

    def _wait(self, connected: Connected, taken: RemoteError) -> None:
        if taken.kind != "locked":
            raise taken
        if not self.options.lock_wait:
            raise lock.held(self.record.host, taken)
        self.listen(events.Waiting(self.record.host, lock.describe(taken.detail or {})))
        name, run = self.wanted.profile.name, self.run_record
        waited = lock.take(name, run.run, self.options.lock_wait, run.playbook)
        (again,) = connected.session.ask([waited])
        if isinstance(again, RemoteError):
            raise lock.held(self.record.host, again)

    def _carry_out(self, connected: Connected, answers: Answers) -> None:
        subject.check_serving(self.steps, self.wanted, self.run_record.profile, answers)
        plan = make(self.steps, self.wanted, answers)
        self.record.release = plan.release
        self.record.previous = plan.current
        with ExitStack() as stack:
            work = Work(
                self.wanted,
                connected,
                answers,
                subject.release(self.steps, self.wanted, answers),
                self.listen,
                self.record,
                stack,
                self.interrupts,
                Gaps(),
                self.hooks,
            )
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
        dead = recovery.find((work.answers.get("releases") or {}).get("ledger") or [])
        if dead is not None:
            self.record.took_up = dead.run
            unit = work.answers.get("unit") or {"state": "unknown"}
            entry = recovery.closing(dead, self.run_record.run, unit.get("release"))
            (told,) = work.connected.session.ask([_record(self.wanted.profile.name, entry)])
            ago = recovery.without_service(dead, unit, told)
            if ago is not None and any(SERVICE in step.produces for step in self.steps):
                work.gaps.interrupted(ago)
            text = f"{recovery.sentence(dead)}: taken up"
            self.listen(events.StepNote(self.record.host, "ledger", text))
        return dead

    def _work(self, work: Work, plan: HostPlan, dead: recovery.Dead | None) -> None:
        session, name = work.connected.session, self.wanted.profile.name
        entry = ledger.begun(self.run_record, self.record, self.wanted.profile, plan.current)
        for answer in session.ask([_record(name, entry), *self._preparation(work, plan)]):
            if isinstance(answer, RemoteError):
                raise answer
        self.begun = True
        closing = "failed"
        try:
            self._attempt(work, plan, dead)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt | Interrupted)
            closing = "interrupted" if stopped else "failed"
            raise
        else:
            closing = outcome([self.record])[0]
        finally:
            self.record.gaps = work.gaps.closed
            self.record.without_service = work.gaps.total()
            self.record.still_without_service = work.gaps.open
            with self.interrupts.shielded():
                session.ask([_record(name, ledger.ended(self.run_record, self.record, closing))])

    def _attempt(self, work: Work, plan: HostPlan, dead: recovery.Dead | None) -> None:
        if dead is not None and recovery.must_go_back(dead, work.release.release, plan.current):
            failure: DeployError | None = HostError(
                self.record.host,
                f"release {dead.release} failed, and {recovery.sentence(dead)}",
                dead.why,
                "its way back was finished; run again to try that release anew",
            )
        else:
            failure = self._carry_out_steps(work, plan)
        if failure is None:
            with self.interrupts.shielded():
                complete(self.run_record, work, plan)
            return
        self.record.error = failure
        failed_release.keep(self.run_record, work, failure)
        astray = dead is not None and dead.phase != "staging"
        if not switch.may_restore(work, plan, failure, astray) or self.options.keep_failed:
            self.record.error = interruption.told(work, plan, self.interrupts, failure)
            if plan.has(SERVER):
                self.record.serves_on = interruption.serves_on(work)
            return
        try:
            switch.restore(self.run_record, work, plan, failure.what)
        except KeyboardInterrupt:
            raise interruption.interrupted_twice(work, plan, self.interrupts) from None

    def _carry_out_steps(self, work: Work, plan: HostPlan) -> DeployError | None:
        if plan.impossible is not None:
            return run_step(work, plan.impossible).error
        try:
            return switch.carry_out(self.run_record, work, plan)
        except DeployError as error:
            # Of no step: the ledger that cannot be written, say. It leads back like any failure.
            return error
        except KeyboardInterrupt:
            at = f" in {self.record.steps[-1].step}" if self.record.steps else ""
            return Interrupted(
                f"{self.record.host}: interrupted{at}",
                next=interruption.goes_on(work),
            )

    def _preparation(self, work: Work, plan: HostPlan) -> list[Any]:
        if plan.impossible or not any(p.step.phase == "stage" for p in plan.steps):
            return []
        return [
            Call(
                "releases.prepare",
                {
                    "profile": self.wanted.profile.name,
                    "release": work.release.release,
                    "environment": work.release.environment_key,
                },
            )
        ]


def _points_right(work: Work, plan: HostPlan) -> bool:
    """Whether `current` names what serves; a run that died may have left it behind."""
    if not plan.has(SERVER):
        return True
    return plan.current == work.release.release


def _record(profile: str, entry: Mapping[str, Any]) -> Any:
    return Call("releases.record", {"profile": profile, "entry": redaction.document(entry)})
