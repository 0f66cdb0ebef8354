"""From the serving release to the next, and the rollback when a gate fails.

Staging touches nothing that serves. From the first switching step on, a failure brings the
previous release back: its own profile, its own directory, proven ready like any other. A release
that is current already has nothing to go back to: a gate that it fails (a stricter one, say) is a
verdict on what serves, and it goes on serving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from deployctl import cancel, redaction
from deployctl.agent.wire.answers import Current
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger.record import RunRecord, StepRecord
from deployctl.engine.ledger.rollback import previous_deployment
from deployctl.engine.run import events
from deployctl.engine.run.execute import Work, run_step
from deployctl.engine.run.interruption import still_serving
from deployctl.engine.run.plan import HostPlan, PlannedStep
from deployctl.engine.run.together import lost
from deployctl.errors import ConnectionLost, DeployError, RemoteError, StepError
from deployctl.hosts.operations import releases
from deployctl.hosts.session import Call
from deployctl.steps import registry
from deployctl.steps.facts import known_releases, known_unit
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import SERVER, SERVICE, Change, Plan
from deployctl.steps.member import PeerFailed, Peers
from deployctl.steps.servers.stopping import REQUESTS, stop_unit

RESTORED = "restore-"
"""The prefix of the rollback's step names in a record."""


def point(release: ReleasePaths) -> Call[Current]:
    """The request that makes a release current."""
    return Call(releases.switch, **release.unit_id, release=release.release)


def carry_out(
    run: RunRecord, work: Work, plan: HostPlan, turn: Callable[[], None]
) -> DeployError | None:
    """Every step in order until one fails; its error, or None when all passed. `turn` is called
    before the first that may touch what serves."""
    waits, together = True, work.wanted.member is not None
    resting = work.resting if plan.has(SERVICE) else None
    replaces = (_serves(work) and plan.has(SERVICE)) or resting is not None
    for planned in plan.steps:
        switches = planned.step.phase == "switch" and planned.plan.status in ("change", "unknown")
        if resting is not None and planned.step.phase == "switch":
            # Whatever switches afterwards: what is measured from here on is without what sleeps.
            switches = plan.switches
        if planned.step.phase == "switch" and (switches or together) and waits:
            turn()
            waits = False
            if replaces:
                _warm_up(work, plan)
        if switches:
            _note(run, work, "switching", step=planned.step.name)
        if switches and replaces:
            work.downtime.interrupted()
        if switches and resting is not None:
            with cancel.shielded():
                resting.sleep(work)
        try:
            with _borrowed(run, work, planned):
                ended = _in_turn(work, planned)
        except PeerFailed as error:
            return lost(work.wanted.host.name, planned.step.name, error)
        if ended.error is not None:
            return ended.error
        if planned.step.phase == "stage" and ended.status == "changed":
            _note(run, work, "staging")
        if SERVICE in planned.step.produces:
            if resting is not None:
                resting.lead()
            work.downtime.served()
    try:
        work.peers.meet("passed")
    except PeerFailed as error:
        return lost(work.wanted.host.name, plan.steps[-1].step.name if plan.steps else "", error)
    return None


@contextmanager
def _borrowed(run: RunRecord, work: Work, planned: PlannedStep) -> Iterator[None]:
    """Around a step that stops what serves and starts it again: the gap in service is noted."""
    if not planned.step.borrows or planned.plan.status != "change":
        yield
        return
    _note(run, work, "switching", step=planned.step.name)
    work.downtime.interrupted()
    try:
        yield
    finally:
        with cancel.shielded():
            if still_serving(work) is not None:
                work.downtime.served()


def _in_turn(work: Work, planned: PlannedStep) -> StepRecord:
    """A step that touches what serves begins on all ranks together; where the head is to be done
    with it first, on that alone. Raises `PeerFailed`."""
    step, rank = planned.step, work.wanted.member and work.wanted.member.rank
    if step.phase != "switch":
        return _run(work, planned)
    work.peers.meet(step.name)
    if step.head_first and rank:
        work.peers.meet(f"{step.name} of the head")
    ended = _run(work, planned)
    if step.head_first and not rank and ended.error is None:
        work.peers.meet(f"{step.name} of the head")
    return ended


def _warm_up(work: Work, plan: HostPlan) -> None:
    """Let the steps that will start a server begin with it beside what serves."""
    for planned in plan.steps:
        status = planned.plan.status
        if SERVER not in planned.step.produces or status not in ("change", "unknown"):
            continue
        if status == "unknown" and work.ask_again(planned).status != "change":
            continue
        planned.step.warm_up(work.context(planned.step.name))


def _run(work: Work, planned: PlannedStep) -> StepRecord:
    with ExitStack() as shield:
        if not planned.step.interruptible:
            shield.enter_context(cancel.shielded())
        return run_step(work, planned)


def _serves(work: Work) -> bool:
    return not work.beside and known_unit(work.answers)["state"] == "running"


def _note(run: RunRecord, work: Work, phase: str, why: str = "", step: str = "") -> None:
    entry = redaction.document(ledger.phase(run, work.record, phase, why, step))
    work.connected.session.call(releases.record, profile=work.wanted.profile.name, entry=entry)


def note_restoring(run: RunRecord, work: Work, why: str) -> None:
    """Note in the ledger that a run goes back. One that cannot be written (a full disk) does not
    prevent the rollback."""
    try:
        _note(run, work, "restoring", why)
    except RemoteError as error:
        host = work.wanted.host.name
        work.listen(events.StepNote(host, "ledger", f"not written: {error.what}"))


def may_restore(work: Work, plan: HostPlan, failed: DeployError, astray: bool) -> bool:
    """Whether a failure leads back: the serving release was touched, or is not the current one.
    A run that only asks what serves (it has no step that switches) takes nothing away.

    `astray` says that a run which died has left something else than the current release.
    """
    current = plan.current
    if isinstance(failed, ConnectionLost) or current in (None, work.release.release):
        return False
    if not manifest_of(work, str(current)):
        return False
    phases = {p.step.name: p.step.phase for p in plan.steps}
    if "switch" not in phases.values():
        return False
    touched = was_touched(work, plan)
    unit = known_unit(work.answers)
    unproven = unit["release"] != current or unit["state"] != "running"
    past_staging = any(phases.get(one.step) in ("switch", "gate") for one in _reached(work))
    return touched or (unproven and (astray or past_staging))


def was_touched(work: Work, plan: HostPlan) -> bool:
    """Whether a step has begun that may end what serves."""
    phases = {p.step.name: p.step.phase for p in plan.steps}
    return any(phases.get(one.step) == "switch" for one in _reached(work))


def _reached(work: Work) -> list[StepRecord]:
    effects = ("changed", "failed", "unknown")
    return [s for s in work.record.steps if s.attempted and s.status in effects]


def manifest_of(work: Work, release: str) -> dict[str, Any]:
    """A release's manifest; empty where it never was complete."""
    return dict(known_releases(work.answers)["releases"].get(release) or {})


def restore(run: RunRecord, work: Work, plan: HostPlan, why: str, peers: Peers) -> None:
    """Bring the previous release back and prove it ready. The record says whether it is. Of a group
    all ranks do it together: `peers` are the others during the rollback."""
    previous, host = str(plan.current), work.wanted.host.name
    try:
        wanted = previous_deployment(work.wanted, previous, manifest_of(work, previous))
    except StepError as error:
        work.record.rollback_error = error
        return
    assert wanted.pinned is not None
    note_restoring(run, work, why)
    work.listen(events.StepNote(host, "restore", f"rolling back to {previous}"))
    back = replace(
        work,
        wanted=wanted,
        release=wanted.pinned,
        record=replace(work.record, steps=[]),
        hooks=work.hooks.lenient(),
        evidence={},
        peers=peers,
        url="",
    )
    if _answers(work) and wanted.member is None:
        for step in registry.making(SERVER):
            step.warm_up(back.context(step.name))
    work.downtime.interrupted()
    try:
        work.record.rollback_error = _bring_back(back, work.release.release)
    except (RemoteError, ConnectionLost) as error:
        work.record.rollback_error = error
    except PeerFailed as error:
        work.record.rollback_error = lost(host, RESTORED.rstrip("-"), error)
    else:
        if work.record.rollback_error is None:
            work.downtime.served()
            work.record.restored = True
    finally:
        work.record.steps += [
            replace(ended, step=f"{RESTORED}{ended.step}") for ended in back.record.steps
        ]


def _answers(work: Work) -> bool:
    """Whether what failed answers its clients: then the release of before is warmed first."""
    served = registry.makers(SERVICE)
    return any(s.step in served and s.attempted and s.error is None for s in work.record.steps)


def _bring_back(back: Work, failed: str) -> DeployError | None:
    """Stop what failed, and start the release of before; why that did not work, if it did not.
    Raises `PeerFailed`."""
    rank = back.wanted.member and back.wanted.member.rank
    if rank:
        back.peers.meet("stopped by the head")
    stopped = stop_unit(back.connected.session, back.wanted, spare=True)
    if not rank:
        back.peers.meet("stopped by the head")
    # The first step starts the server: what it took the place of is its evidence.
    starts = back.evidence.setdefault(registry.making(SERVER)[0].name, {})
    starts[REQUESTS] = stopped["requests"]
    because = f"release {failed} failed"
    for step in registry.making(SERVER, SERVICE):
        back.peers.meet(step.name)
        change = Change("serving release", failed, back.release.release, because)
        ended = run_step(back, PlannedStep(step, Plan("change", (change,))))
        if ended.error is not None:
            return ended.error
    back.peers.meet("restored")
    return None
