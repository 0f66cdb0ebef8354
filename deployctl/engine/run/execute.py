"""Carry out the plan of one host, step by step, and record what was measured."""

from __future__ import annotations

import functools
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from deployctl.cancel import Cancelled
from deployctl.config.serve import own_address
from deployctl.engine.connections.connect import Connected, ask
from deployctl.engine.ledger.record import HostRecord, StepRecord, StepStatus
from deployctl.engine.run.downtime import Downtime
from deployctl.engine.run.events import Listener, StepEnded, StepNote, StepProgress, StepStarted
from deployctl.engine.run.hooks import Hooks, When
from deployctl.engine.run.plan import PlannedStep, questions
from deployctl.errors import (
    ConnectionLost,
    DeployError,
    Interrupted,
    RemoteError,
    StepBroken,
    StepError,
    Undecided,
)
from deployctl.hosts.tunnel import Tunnel
from deployctl.steps.builds.damage import blamed
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import (
    WHOLE_ANSWER,
    Answers,
    Context,
    Courier,
    Deployment,
    NoCourier,
    Plan,
    Step,
    Unanswered,
)
from deployctl.steps.member import SEE, TOGETHER, NoPeers, PeerFailed, Peers
from deployctl.steps.servers import stopping


class Rests(Protocol):
    """What serves, and sleeps while its successor is started."""

    def sleep(self, work: Work) -> None:
        """Let clients wait and put it to sleep."""

    def lead(self) -> None:
        """Lead clients to the successor."""


@dataclass
class Work:
    """One host's work in progress: what every step's context is built from."""

    wanted: Deployment
    connected: Connected
    answers: Answers
    release: ReleasePaths
    listen: Listener
    record: HostRecord
    stack: ExitStack
    downtime: Downtime
    hooks: Hooks
    evidence: dict[str, dict[str, object]] = field(default_factory=dict)
    beside: bool = False
    """Whether it is started beside what serves: clients reach none of it before it has passed."""
    courier: Courier = field(default_factory=NoCourier)
    peers: Peers = field(default_factory=NoPeers)
    """The other ranks of its group."""
    resting: Rests | None = None
    """What sleeps while this is started; None where nothing does."""
    url: str = ""
    """Where the served port is reached from here; empty until somebody needs it."""

    def context(self, step: str) -> Context:
        """The context of one step."""
        host = self.wanted.host.name

        def progress(phase: str, detail: str = "", fraction: float | None = None) -> None:
            self.listen(StepProgress(host, step, phase, detail, fraction))

        def log(text: str) -> None:
            self.listen(StepNote(host, step, text))

        return Context(
            wanted=self.wanted,
            answers=self.answers,
            session=self.connected.session,
            node=self.connected.node,
            release=self.release,
            progress=progress,
            log=log,
            evidence=self.evidence,
            courier=self.courier,
            peers=self.peers,
            base_url=self.base_url,
        )

    def base_url(self) -> str:
        """Where the served port is reached from here; a tunnel is opened once, when needed."""
        if not self.url:
            serve = self.wanted.profile.serve
            if self.wanted.host.local:
                self.url = stopping.base_url(self.wanted.profile)
            else:
                address = own_address(serve.host)
                tunnel = Tunnel(self.connected.session, address, serve.port)
                self.url = self.stack.enter_context(tunnel).url
        return self.url

    def ask_again(self, planned: PlannedStep) -> Plan:
        """Plan a step again from fresh answers, where an earlier step has made them knowable."""
        asked = questions([planned.step], self.wanted)
        later, _ = ask(self.connected, asked)
        settled = {
            key: self.wanted.settled[key]
            for key, question in asked.items()
            if question.moving == WHOLE_ANSWER and key in self.wanted.settled
        }
        self.answers = self.answers.renewed(later).renewed(Answers(settled))
        try:
            return planned.step.plan(self.wanted, self.answers)
        except Unanswered as error:
            return Plan("unknown", reason=str(error.args[0]))


def run_step(work: Work, planned: PlannedStep) -> StepRecord:
    """Apply and prove one step, its hooks around it where there is something to do.

    Never raises for a failure of the step: its record says so.
    """
    step, plan, host = planned.step, planned.plan, work.wanted.host.name
    if plan.status == "unknown":
        plan = work.ask_again(planned)
    if plan.status == "unchanged":
        record = StepRecord(step.name, "unchanged", 0.0, plan.evidence, reason=plan.reason)
        return _ended(work, record)
    work.listen(StepStarted(host, step.name, plan))
    before = _hooks(work, step, "before")
    if before is not None:
        return before
    ended = _carried_out(work, step, plan)
    return ended if ended.error is not None else _hooks(work, step, "after") or ended


def _hooks(work: Work, step: Step, when: When) -> StepRecord | None:
    """Run a step's hooks; the record of the one that failed, if it was required."""
    host = work.wanted.host.name
    failure = functools.partial(step.failure, host, step.name)
    records = work.hooks.around(when, step.name, host, work.connected.session, failure)
    for record in records:
        _ended(work, record)
    return next((record for record in records if record.error is not None), None)


def _carried_out(work: Work, step: Step, plan: Plan) -> StepRecord:
    host = work.wanted.host.name
    began = time.monotonic()
    context = work.context(step.name)
    if plan.status in ("unknown", "blocked"):
        advice = "fix the cause shown above, then check: deployctl plan"
        error: DeployError = step.fail(context, "cannot be done", plan.reason, advice)
        status: StepStatus = "unknown" if plan.status == "unknown" else "failed"
        refused = StepRecord(step.name, status, 0.0, plan.evidence, error=error, attempted=False)
        return _ended(work, refused)
    try:
        if plan.status == "change":
            step.apply(context, plan)
        evidence = step.prove(context)
    except StepError as raised:
        found = blamed(step, context, raised)
        error, evidence = found, found.evidence
        status = "unknown" if isinstance(raised, Undecided) else "failed"
    except ConnectionLost as raised:
        error, evidence, status = raised, context.so_far, "unknown"
    except PeerFailed as raised:
        what = f"{raised.host} failed first: {raised.words}"
        error = step.fail(context, what, TOGETHER, SEE)
        evidence, status = {}, "failed"
    except (RemoteError, Unanswered) as raised:
        unanswered = step.fail(context, "the host could not answer", str(raised))
        found = blamed(step, context, unanswered)
        error, evidence, status = found, found.evidence, "failed"
    except Cancelled:
        error = Interrupted(f"{host}: {step.name}: interrupted")
        seconds = time.monotonic() - began
        so_far = context.so_far
        _ended(work, StepRecord(step.name, "unknown", seconds, so_far, plan.changes, error=error))
        raise
    except Exception as raised:
        # A bug must not keep a failed release serving: it is rolled back like any failure.
        error = StepBroken(
            host,
            step.name,
            f"internal error, {type(raised).__name__}: {raised}",
            "".join(traceback.format_exception(raised)).strip(),
            "please report it with these lines",
        )
        evidence, status = {}, "failed"
    else:
        work.evidence[step.name] = evidence
        changed = plan.status == "change" and step.phase != "gate"
        return _ended(
            work,
            StepRecord(
                step.name,
                "changed" if changed else "passed",
                time.monotonic() - began,
                evidence,
                plan.changes,
                plan.reason,
            ),
        )
    seconds = time.monotonic() - began
    return _ended(work, StepRecord(step.name, status, seconds, evidence, plan.changes, error=error))


def _ended(work: Work, record: StepRecord) -> StepRecord:
    work.record.steps.append(record)
    if record.evidence:
        work.evidence.setdefault(record.step, record.evidence)
    work.listen(StepEnded(work.wanted.host.name, record))
    return record
