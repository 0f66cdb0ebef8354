"""What serves sleeps while its successor is started and judged on the same GPUs; a successor that
fails makes way for it again.

Clients wait at the front from the sleep to the successor's first answer, and are led to that then.
Until the successor has passed, the one that sleeps stays the one that serves: a run that finds it
asleep wakes it, unless it goes on with that very successor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import UnitState
from deployctl.config.profile import Profile
from deployctl.engine.ledger.record import RunRecord, StepRecord
from deployctl.engine.run import events, switch
from deployctl.engine.run.execute import Work
from deployctl.engine.run.front import Front
from deployctl.engine.run.plan import HostPlan
from deployctl.engine.strategies.registry import strategy
from deployctl.errors import DeployError, HostError, RemoteError
from deployctl.hosts.operations import sleeping, units
from deployctl.hosts.session import Session
from deployctl.steps.identity import UnitId
from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.member import NoPeers
from deployctl.steps.servers import in_flight, life, siblings
from deployctl.steps.servers import sleeping as rules
from deployctl.steps.servers.process import RUNNING
from deployctl.steps.servers.stopping import REQUESTS, stop_named, stop_unit
from deployctl.vllm.serving.command import drain_seconds

Processes = frozenset[tuple[int, int]]
SLEEP, WAKE = rules.SLEEP, f"{switch.RESTORED}{rules.WAKE}"
LEVEL, LOST = 1, 2
"""vLLM's levels of sleep: the weights are kept in host memory, or are lost."""
POLL = 0.05
"""Seconds between two looks at what drains, while clients wait."""
LIMIT = 180.0
"""Seconds to sleep or to wake: 140 GB of weights over a slow PCIe link take less."""


@dataclass
class Resting:
    """The unit that serves and may sleep, and the one that is started meanwhile."""

    front: Front
    unit: str
    successor: str
    answers: Answers
    """What is known of the unit that serves."""
    current: str | None
    able: bool = True
    """Whether it sleeps; else it is stopped."""
    begun: bool = False
    """Whether it has made way, or has begun to."""

    @property
    def session(self) -> Session:
        return self.front.session

    def wanted(self, unit: str) -> Deployment:
        """What is wanted of one of both units."""
        return siblings.of_unit(self.front.wanted, unit)

    def sleep(self, work: Work) -> None:
        """Let clients wait, requests in flight end, and the one that serves sleep, or end. Raises
        RemoteError."""
        if self.begun:
            return
        began, serves = time.monotonic(), self.wanted(self.unit)
        self.begun = True
        self.front.hold()
        now = self.session.call(units.state, **serves.unit_id)
        if not self.able:
            evidence: dict[str, Any] = {REQUESTS: stop_unit(self.session, serves)["requests"]}
        else:
            within = drain_seconds(serves.profile.serve.stop_grace)
            show = _shown(work, SLEEP)
            left = in_flight.drain(self.session, serves, now, within, show, POLL)
            self.front.hold(cut=True)
            slept = self.session.call(sleeping.sleep, **serves.unit_id, level=LEVEL, limit=LIMIT)
            requests = {"in_flight": left, "cut_off": left}
            evidence = {"seconds": slept["seconds"], REQUESTS: requests}
        _record(work, SLEEP, began, {"unit": self.unit, "asleep": self.able, **evidence})

    def lead(self) -> None:
        """Lead clients to the successor, which answers."""
        if self.begun and (self.front.held or self.front.target != self.successor):
            self.front.lead(self.successor)

    def wake(self, work: Work, why: str) -> None:
        """The successor makes way, and what slept serves again; raises RemoteError and HostError
        where it does not."""
        began, serves, other = time.monotonic(), self.wanted(self.unit), self.wanted(self.successor)
        self.front.hold(cut=True)
        makes_way = self._out_of_the_way(other)
        woken = self.session.call(sleeping.wake, **serves.unit_id, limit=LIMIT)
        self._prove(serves)
        self.front.lead(self.unit)
        work.downtime.served()
        evidence = {
            "unit": self.unit,
            "why": why,
            "awake_after": woken["seconds"],
            "successor": makes_way,
        }
        _record(work, WAKE, began, evidence)
        self.begun = False

    def wake_or_stop(self, work: Work, why: str) -> None:
        """Wake what a run that died left asleep. What does not wake is stopped, so that it is
        started again as anything that has ended."""
        host = work.record.host
        try:
            self.wake(work, why)
        except (RemoteError, HostError) as error:
            work.listen(events.StepNote(host, WAKE, f"it is stopped: {error.what}"))
            stop_unit(self.session, self.wanted(self.unit))
        stop_unit(self.session, self.wanted(self.successor))
        self.front.lead(self.unit)

    def go_back(self, run: RunRecord, work: Work, plan: HostPlan, failure: DeployError) -> None:
        """After a failure: wake what sleeps, or start it again where it does not wake. The record
        says whether it serves."""
        host, record = work.wanted.host.name, work.record
        switch.note_restoring(run, work, failure.what)
        work.downtime.interrupted()
        if not self.able:
            self._start_again(run, work, plan, failure)
            return
        work.listen(events.StepNote(host, "restore", f"waking release {self.current}"))
        try:
            with cancel.shielded():
                self.wake(work, failure.what)
                record.restored, record.still_serving = True, self.current
                stop_unit(self.session, self.wanted(self.successor))
        except (RemoteError, HostError) as error:
            if record.restored:
                record.rollback_error = error
                return
            text = f"it is started again: {error.what}"
            work.listen(events.StepNote(host, "restore", text))
            self._start_again(run, work, plan, failure)

    def _start_again(
        self, run: RunRecord, work: Work, plan: HostPlan, failure: DeployError
    ) -> None:
        serves = self.wanted(self.unit)
        stop_unit(self.session, self.wanted(self.successor))
        self.front.lead(self.unit)
        again = replace(work, wanted=serves, answers=self.answers, beside=False, resting=None)
        again.url = ""
        switch.restore(run, again, replace(plan, current=self.current), failure.what, NoPeers())
        self.begun = False

    def _out_of_the_way(self, other: Deployment) -> str:
        """Free the GPUs of the successor's memory: at once where it can sleep as well."""
        now = self.session.call(units.state, **other.unit_id)
        if now["state"] not in RUNNING and not now["members"]:
            return "it did not run"
        # What still starts takes memory all the while, and does not hear of it.
        if now["kept"]:
            try:
                self.session.call(sleeping.sleep, **other.unit_id, level=LOST, limit=LIMIT)
                return "asleep"
            except RemoteError:
                pass
        stop_named(self.session, other.unit_id, 0.0)
        return "stopped"

    def _prove(self, serves: Deployment) -> None:
        """A completion comes from what was woken."""
        question = life.questions(serves.profile)[0]
        answers = Answers({question.key: self.session.follow(question.call, None)})
        generates, why = life.generates(answers)
        if generates is False:
            raise HostError(
                serves.host.name,
                "what slept is awake and does not generate",
                why,
                f"see its log: deployctl logs --profile {serves.profile.name}",
            )


def _shown(work: Work, step: str) -> Callable[[int | None], None]:
    host = work.wanted.host.name

    def show(left: int | None) -> None:
        many = "an unknown number of" if left is None else str(left)
        work.listen(events.StepProgress(host, step, "drain", f"{many} requests in flight", None))

    return show


def _record(work: Work, step: str, began: float, evidence: dict[str, Any]) -> None:
    ended = StepRecord(step, "changed", time.monotonic() - began, evidence)
    work.record.steps.append(ended)
    work.record.changed = True
    work.listen(events.StepEnded(work.wanted.host.name, ended))


def resting_processes(profile: Profile, serving: UnitState) -> Processes:
    """The processes of what serves, where they make way for the next server on the same GPUs."""
    if not strategy(profile).sleeps:
        return frozenset()
    return frozenset((member["pid"], member["start"]) for member in serving["members"])


def why_not(session: Session, serves: UnitId, wanted: Deployment, answers: Answers) -> str:
    """Why the unit that serves cannot sleep while the wanted one is started; empty where it can."""
    now = session.call(sleeping.look, **serves)
    if now["asleep"]:
        return ""
    return next(rules.obstacles(now, wanted, answers), "")


def how(release: str, why: str) -> str:
    """What becomes of the release that serves, in words."""
    if why:
        return f"release {release} cannot sleep meanwhile and is stopped: {why}"
    return f"release {release} sleeps until its successor has passed"
