"""One host's part of a run: under its lock, from the questions to the sealed release."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from deployctl.engine import events, ledger, lock, switch
from deployctl.engine.connect import Connected, connect
from deployctl.engine.execute import Work, run_step
from deployctl.engine.plan import HostPlan, ask, make, needs_release, questions
from deployctl.engine.record import HostRecord, RunRecord, StepRecord, outcome
from deployctl.errors import HostError, RemoteError
from deployctl.hosts.session import Call
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Answers, Deployment, Step, Unanswered
from deployctl.steps.release import release_identity, release_paths


@dataclass(frozen=True)
class Options:
    """What the command line adds to a profile and a playbook. `lock_wait` is in seconds."""

    skip: frozenset[str] = frozenset()
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    check_gates: bool = False
    lock_wait: float = 0.0
    keep_failed: bool = False
    """Leave a release that failed its gate serving instead of going back."""


@dataclass
class HostRun:
    """One host's part of a run."""

    run_record: RunRecord
    record: HostRecord
    wanted: Deployment
    steps: Sequence[Step]
    options: Options
    listen: events.Listener

    def run(self) -> None:
        began = time.monotonic()
        with connect(self.wanted.host) as connected:
            try:
                answers = self._ask(connected)
                seconds = time.monotonic() - began
                self.listen(events.HostStarted(self.record.host, seconds))
                self._carry_out(connected, answers)
            finally:
                self.record.round_trips = connected.round_trips

    def _ask(self, connected: Connected) -> Answers:
        asked = questions(self.steps, self.wanted)
        name, run = self.wanted.profile.name, self.run_record.run
        answers, (taken,) = ask(connected, asked, [lock.take(name, run)])
        if not isinstance(taken, RemoteError):
            return answers
        if taken.kind != "locked":
            raise taken
        if not self.options.lock_wait:
            raise lock.held(self.record.host, taken)
        self.listen(events.Waiting(self.record.host, lock.describe(taken.detail or {})))
        # What was answered before the other run ended is stale by the time we hold the lock.
        (taken,) = connected.session.ask([lock.take(name, run, self.options.lock_wait)])
        if isinstance(taken, RemoteError):
            raise lock.held(self.record.host, taken)
        return ask(connected, asked)[0]

    def _carry_out(self, connected: Connected, answers: Answers) -> None:
        plan = make(self.steps, self.wanted, answers)
        self.record.release = plan.release
        self.record.previous = plan.current
        with ExitStack() as stack:
            work = Work(
                self.wanted,
                connected,
                answers,
                self._release(answers),
                self.listen,
                self.record,
                stack,
            )
            self.record.release = work.release.release
            if plan.idle:
                for planned in plan.steps:
                    run_step(work, planned)
            else:
                self._work(work, plan)
        self._note_skipped()

    def _release(self, answers: Answers) -> ReleasePaths:
        """The release at work: the wanted one, or the serving one where nothing is deployed."""
        if not needs_release(self.steps):
            return self._serving(answers)
        try:
            return release_paths(self.wanted, answers)
        except Unanswered as error:
            first = self.steps[0]
            raise first.failure(
                self.record.host,
                first.name,
                "what is wanted cannot be determined, nothing was touched",
                str(error.args[0]),
                "mend what the reason names and run again",
            ) from error

    def _serving(self, answers: Answers) -> ReleasePaths:
        releases, name = answers["releases"], self.wanted.profile.name
        current = releases["current"]
        if current is None and any(step.phase == "gate" for step in self.steps):
            raise HostError(
                self.record.host,
                f"nothing of profile {name} is deployed here",
                next=f"run: deployctl up --profile {name}",
            )
        manifest = releases["releases"].get(current) or {}
        key = manifest.get("identity", {}).get("environment", "none")
        return ReleasePaths(name, current or "none", str(key))

    def _work(self, work: Work, plan: HostPlan) -> None:
        blocked = next((p for p in plan.steps if p.plan.status == "blocked"), None)
        if blocked is not None:
            step = run_step(work, blocked)
            raise step.error or AssertionError("a blocked step has an error")
        session, name = work.connected.session, self.wanted.profile.name
        session.ask(
            [
                _record(name, ledger.begun(self.run_record, self.record, plan.current)),
                *self._preparation(work, plan),
            ]
        )
        closing = "failed"
        try:
            failed = switch.carry_out(self.run_record, work, plan)
            if failed is not None:
                self.record.error = failed
                if switch.may_restore(work, plan, failed) and not self.options.keep_failed:
                    switch.restore(self.run_record, work, plan)
            else:
                self._complete(work, plan)
        except BaseException as error:
            closing = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            raise
        else:
            closing = outcome([self.record])[0]
        finally:
            session.ask([_record(name, ledger.ended(self.run_record, self.record, closing))])

    def _preparation(self, work: Work, plan: HostPlan) -> list[Any]:
        if not any(p.step.phase == "stage" for p in plan.steps):
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

    def _complete(self, work: Work, plan: HostPlan) -> None:
        """Seal the release with its evidence and, where it was launched, make it current."""
        record = self.record
        record.changed = any(step.status == "changed" for step in record.steps)
        known = (work.answers.get("releases") or {}).get("releases", {})
        before = (known.get(work.release.release) or {}).get("evidence", {})
        staged = any(p.step.phase != "gate" for p in plan.steps)
        identity = (
            release_identity(self.wanted, work.answers)
            if staged
            else (known.get(work.release.release) or {}).get("identity", {})
        )
        evidence = {**before, **work.evidence}
        sealed = ledger.manifest(self.wanted, record, identity, evidence)
        requests = [
            Call(
                "releases.seal",
                {
                    "profile": self.wanted.profile.name,
                    "release": work.release.release,
                    "manifest": sealed,
                },
            )
        ]
        if any(p.step.name == "launch" for p in plan.steps):
            requests.append(switch.point(self.wanted.profile.name, work.release.release))
        for answer in work.connected.session.ask(requests):
            if isinstance(answer, RemoteError):
                raise answer

    def _note_skipped(self) -> None:
        done = {step.step for step in self.record.steps}
        for step in self.steps:
            if step.name not in done:
                why = "left out" if step.name in self.wanted.skip else "not reached"
                self.record.steps.append(StepRecord(step.name, "skipped", reason=why))


def _record(profile: str, entry: Mapping[str, Any]) -> Any:
    return Call("releases.record", {"profile": profile, "entry": dict(entry)})
