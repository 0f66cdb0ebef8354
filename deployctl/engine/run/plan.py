"""The questions of all steps, and what the answers of a host make them plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl.errors import ConfigError, HostError
from deployctl.steps import facts
from deployctl.steps.delivery import Delivery
from deployctl.steps.facts import known_releases
from deployctl.steps.interface import (
    Answers,
    Change,
    Deployment,
    Plan,
    Question,
    Step,
    Unanswered,
)
from deployctl.steps.release import identity_questions, release_paths


@dataclass(frozen=True)
class PlannedStep:
    """A step and what it would do."""

    step: Step
    plan: Plan
    later: bool = False
    """Whether it is unknown only until an earlier step has made what it uses."""


@dataclass(frozen=True)
class HostPlan:
    """What a run would do on one host, in order. `release` is None where it is not known yet, or
    where no step works on the wanted one (`for_release` is false)."""

    host: str
    release: str | None
    current: str | None
    steps: tuple[PlannedStep, ...]
    for_release: bool = True
    deliveries: tuple[Delivery, ...] = ()
    """What it would get from other hosts, or make for them."""
    handover: str = ""
    """What becomes of what serves meanwhile, where that is not always the same."""

    @property
    def blocked(self) -> PlannedStep | None:
        """The first step that cannot be done, if any."""
        return next((p for p in self.steps if p.plan.status in ("blocked", "unknown")), None)

    @property
    def impossible(self) -> PlannedStep | None:
        """The first step that is known not to be possible: then nothing is begun."""
        return next((p for p in self.steps if p.plan.status == "blocked"), None)

    @property
    def unknown(self) -> tuple[PlannedStep, ...]:
        """The steps of which it is not known what they would do, and no step will make it known."""
        return tuple(p for p in self.steps if p.plan.status == "unknown" and not p.later)

    def has(self, product: str) -> bool:
        """Whether one of the steps makes this, if it has anything to do."""
        return any(product in p.step.produces for p in self.steps)

    @property
    def changes(self) -> bool:
        return any(p.plan.status == "change" for p in self.steps)

    @property
    def switches(self) -> bool:
        """Whether anything that serves may be touched."""
        return any(
            p.step.phase == "switch" and p.plan.status in ("change", "unknown") for p in self.steps
        )

    @property
    def idle(self) -> bool:
        """Nothing to change and nothing to check."""
        return all(p.plan.status == "unchanged" for p in self.steps)


def questions(steps: Sequence[Step], wanted: Deployment) -> dict[str, Question[Any]]:
    """The questions of all steps by key; the same key must ask the same thing."""
    state = facts.release_state(wanted)
    asked: dict[str, Question[Any]] = {state.key: state}
    identity = identity_questions(wanted) if needs_release(steps) else []
    for question in (*identity, *(q for step in steps for q in step.questions(wanted))):
        known = asked.setdefault(question.key, question)
        if known != question:
            raise AssertionError(f"two questions have the key {question.key}: {known}")
    return asked


def concerned(steps: Sequence[Step], wanted: Deployment, answers: Answers) -> list[Step]:
    """The steps that have anything to do with a host."""
    return [step for step in steps if step.concerns(wanted, answers)]


def needs_release(steps: Sequence[Step]) -> bool:
    """Whether any of the steps works on the wanted release."""
    return any(step.needs_release for step in steps)


def make(steps: Sequence[Step], wanted: Deployment, answers: Answers) -> HostPlan:
    """Plan every step. Touches nothing: `plan`, `--dry-run` and `up` use this very function."""
    planned: list[PlannedStep] = []
    changing: dict[str, str] = {}
    """What changes, and which step changes it."""
    for step in steps:
        if step.name in wanted.skip:
            continue
        try:
            plan = step.plan(wanted, answers)
        except Unanswered as error:
            plan = Plan("unknown", reason=str(error.args[0]))
        cause = next((changing[used] for used in step.uses if used in changing), None)
        if plan.status == "unchanged" and cause is not None and not plan.needless:
            plan = _again(plan, step, cause)
        if plan.status == "change":
            changing |= dict.fromkeys(step.produces, step.name)
        later = plan.status == "unknown" and cause is not None
        planned.append(PlannedStep(step, plan, later))
    return HostPlan(
        wanted.host.name,
        wanted_release(wanted, answers),
        known_releases(answers)["current"],
        tuple(planned),
        needs_release(steps),
        tuple(wanted.deliveries.values()),
    )


def _again(plan: Plan, step: Step, cause: str) -> Plan:
    if step.phase == "gate":
        return replace(plan, status="check", reason=f"{cause} changes")
    change = Change(step.name, why=f"{cause} changes")
    return replace(plan, status="change", changes=(change,), reason=f"{cause} changes")


def stays(
    steps: Sequence[Step], wanted: Deployment, current: str | None, release: str | None
) -> bool:
    """Whether what serves, the current release, is to go on: it is the wanted one and not to be
    started again, or it is only asked something."""
    if all(step.is_gate for step in steps):
        return True
    again = any(wanted.option(step.name, step.again, False) for step in steps if step.again)
    return release == current and not again


def wanted_release(wanted: Deployment, answers: Answers) -> str | None:
    """The wanted release's id; None where an answer that it follows from is unknown."""
    try:
        return release_paths(wanted, answers).release
    except Unanswered:
        return None


def unanswered(host: str, error: Unanswered) -> HostError:
    """The failure of a command that cannot go on without an answer."""
    return HostError(
        host,
        "the host could not answer what must be known",
        str(error.args[0]),
        "fix the cause shown above and retry",
    )


def select(names: Sequence[str], known: Mapping[str, Step]) -> list[Step]:
    """The steps with these names, in order."""
    missing = [name for name in names if name not in known]
    if missing:
        raise ConfigError(
            f"no such step: {', '.join(missing)}", next=f"known steps: {', '.join(known)}"
        )
    return [known[name] for name in names]
