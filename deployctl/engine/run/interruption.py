"""What was left where a run could not finish: asked of the host, put in one sentence."""

from __future__ import annotations

from deployctl import cancel
from deployctl.agent.wire.answers import UnitState
from deployctl.engine.run.execute import Work
from deployctl.engine.run.plan import HostPlan
from deployctl.errors import ConnectionLost, DeployError, HostError, Interrupted, RemoteError
from deployctl.hosts.operations import units
from deployctl.hosts.session import Session
from deployctl.steps import registry
from deployctl.steps.identity import UnitId
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.process import RUNNING, was_proven


def interrupted_twice(work: Work, plan: HostPlan) -> Interrupted:
    """The rollback was cut short: exactly what serves and what does not."""
    with cancel.shielded():
        left = _left_by(work)
    name = work.wanted.profile.name
    return Interrupted(
        f"{work.wanted.host.name}: interrupted again, the rollback to release {plan.current} "
        "was not finished",
        left,
        f"run: deployctl up --profile {name} (or deployctl rollback current --profile {name})",
    )


def told(work: Work, plan: HostPlan, error: DeployError) -> DeployError:
    """A failure after which nothing goes back; an interrupt says what was left, unless it came
    while staging."""
    if not isinstance(error, Interrupted):
        return error
    phases = {planned.step.name: planned.step.phase for planned in plan.steps}
    reached = {phases.get(step.step) for step in work.record.steps if step.status != "unchanged"}
    if not reached & {"switch", "gate"}:
        return error
    with cancel.shielded():
        left = _left_by(work)
    name = work.wanted.profile.name
    measuring = all(planned.step.borrows for planned in plan.steps)
    if measuring and left.startswith("release "):
        again = f"measure again: deployctl tune --profile {name}"
        return Interrupted(error.what, f"{left}; nothing was changed", again)
    return Interrupted(
        error.what,
        f"{left}; the remaining gates did not run",
        f"run: deployctl up --profile {name} (it verifies what runs and runs its gates)",
    )


def cut_short(session: Session, wanted: Deployment, begun: bool) -> Interrupted:
    """An interrupt outside of every step: `begun` says whether any work had begun."""
    host, profile = wanted.host.name, wanted.profile.name
    left = left_behind(session, wanted.unit_id) if begun else "nothing was touched"
    todo = f"see what was done: deployctl history --profile {profile}" if begun else ""
    return Interrupted(f"{host}: interrupted", left, todo)


def goes_on(work: Work) -> str:
    """What to do after an interrupt: a job continues on the host, to be attached to or stopped."""
    step = registry.steps().get(work.record.steps[-1].step) if work.record.steps else None
    there = "" if step is None else step.goes_on(work.wanted, work.release)
    return f"retry to continue: {there}" if there else "retry to continue"


def still_serving(work: Work) -> str | None:
    """The release that runs on after a failure after which nothing goes back; None where none
    does, or that cannot be known."""
    unit = _unit(work.connected.session, work.wanted.unit_id)
    if isinstance(unit, HostError) or unit["state"] not in RUNNING:
        return None
    return str(unit["release"])


def _left_by(work: Work) -> str:
    return left_behind(work.connected.session, work.wanted.unit_id)


def left_behind(session: Session, unit_id: UnitId) -> str:
    """What runs on the host now; says so where that cannot be known."""
    unit = _unit(session, unit_id)
    if isinstance(unit, HostError):
        return f"what serves is unknown: {unit.what}"
    if unit["state"] in RUNNING:
        proven = "proven ready" if was_proven(unit) else "not proven ready"
        return f"release {unit['release']} runs, pid {unit['pid']}, {proven}"
    rest = ", ".join(str(member["pid"]) for member in unit["members"])
    return "nothing serves" + (f"; processes left: {rest}" if rest else "")


def _unit(session: Session, unit_id: UnitId) -> UnitState | HostError:
    """The unit as it is now, or why that cannot be known."""
    try:
        return session.call(units.state, **unit_id)
    except (ConnectionLost, RemoteError) as error:
        return error
