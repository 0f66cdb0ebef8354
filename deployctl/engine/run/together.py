"""What the workers of a group agree on: which release is current, whether all start again, whether
all go back, and in which order they commit.

A group's ledger is that of its head's host; what another host has otherwise was left by a run that
died between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deployctl.engine.run.members import BACK, TRY, Members
from deployctl.engine.run.plan import HostPlan, PlannedStep
from deployctl.errors import NotReady
from deployctl.steps.facts import RELEASES, known_releases
from deployctl.steps.interface import SERVICE, Answers, Deployment, Step
from deployctl.steps.member import SEE, TOGETHER, PeerFailed


def led(members: Members, host: str, answers: Answers) -> tuple[Answers, bool]:
    """The answers with the release that is current on the head, and whether another one is
    current here; raises `PeerFailed`."""
    own = known_releases(answers)
    if members.alone or answers.get(RELEASES) is None:
        return answers, False
    current = members.meet(host, TRY, "current", own["current"])[members.hosts[0]]
    return with_current(answers, current), current != own["current"]


def with_current(answers: Answers, current: str | None) -> Answers:
    """The answers with this release as the current one, where it is complete here."""
    own = answers.get(RELEASES)
    if own is None or not (own["releases"].get(current or "")):
        return answers
    return answers.renewed(Answers({RELEASES: {**own, "current": current}}))


def agreed(members: Members, host: str, key: str, value: Any) -> Any:
    """What the head says; raises `PeerFailed`."""
    if members.alone:
        return value
    return members.meet(host, TRY, key, value)[members.hosts[0]]


def why_all_start(members: Members, host: str, plan: HostPlan) -> str:
    """Why this rank starts again although it has no reason of its own; empty where it has, or
    none starts. Of those that still take part."""
    told = members.every(host, "switches", plan.switches)
    others = [one for one, switches in told.items() if switches and one != host]
    if plan.switches or not others:
        return ""
    return f"{others[0]} starts its rank, and all start together"


def checked(members: Members, host: str, plan: HostPlan, astray: bool) -> HostPlan:
    """The plan, in which the readiness of all ranks is checked where one has anything to do;
    raises `PeerFailed`."""
    if members.alone:
        return plan
    told = members.meet(host, TRY, "idle", plan.idle and not astray)
    if all(told.values()):
        return plan
    return replace(plan, steps=tuple(_checked(planned) for planned in plan.steps))


def _checked(planned: PlannedStep) -> PlannedStep:
    if planned.plan.status != "unchanged" or SERVICE not in planned.step.produces:
        return planned
    plan = replace(planned.plan, status="check", reason="another rank is to be checked")
    return replace(planned, plan=plan)


def own_steps(steps: Sequence[Step], wanted: Deployment) -> list[Step]:
    """The steps that a host has something to do in."""
    return [step for step in steps if wanted.role in step.roles]


def goes_back(members: Members, host: str, restores: bool, able: bool) -> bool:
    """Whether the group goes back: one of them has to, and all can; raises `PeerFailed` where
    one takes no part any more."""
    if members.alone:
        return restores
    told = members.meet(host, BACK, "restores", (restores, able))
    wanted, possible = zip(*told.values(), strict=True)
    return any(wanted) and all(possible)


def lost(host: str, step: str, error: PeerFailed) -> NotReady:
    """The failure of a rank that another one has taken with it."""
    what = f"{error.host} failed first: {error.words}"
    return NotReady(host, step, what, TOGETHER, SEE)
