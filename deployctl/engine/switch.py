"""From the serving release to the next, and the way back when a gate fails.

Staging touches nothing that serves. From the first switching step on, a failure brings the
previous release back: its own profile, its own directory, proven ready like any other.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from deployctl.config.profile import Profile
from deployctl.engine import events, ledger
from deployctl.engine.execute import Work, run_step
from deployctl.engine.plan import HostPlan, PlannedStep
from deployctl.engine.record import RunRecord
from deployctl.engine.steps import STEPS
from deployctl.errors import ConnectionLost, DeployError, RemoteError
from deployctl.hosts.session import Call
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Change, Deployment, Plan
from deployctl.steps.launch import RESTORE

WAY_BACK = ("launch", "ready")


def point(profile: str, release: str) -> Call:
    """The request that makes a release current."""
    return Call("releases.switch", {"profile": profile, "release": release})


def carry_out(run: RunRecord, work: Work, plan: HostPlan) -> DeployError | None:
    """Every step in order until one fails; its error, or None when all passed."""
    switching: float | None = None
    for planned in plan.steps:
        if planned.step.phase == "switch" and planned.plan.status == "change" and switching is None:
            switching = time.monotonic()
            entry = ledger.phase(run, work.record, "switching")
            work.connected.session.call(
                "releases.record", profile=work.wanted.profile.name, entry=entry
            )
        ended = run_step(work, planned)
        if ended.error is not None:
            return ended.error
        if planned.step.name == "ready" and switching is not None and _served(work):
            work.record.without_service = time.monotonic() - switching
    return None


def _served(work: Work) -> bool:
    unit = work.answers.get("unit") or {}
    return unit.get("state") == "running"


def may_restore(work: Work, plan: HostPlan, failed: DeployError) -> bool:
    """Whether the failure came after switching began, with another release to go back to."""
    if isinstance(failed, ConnectionLost) or plan.current in (None, work.release.release):
        return False
    touched = {s.step for s in work.record.steps if s.status in ("changed", "failed", "unknown")}
    switching = {p.step.name for p in plan.steps if p.step.phase == "switch"}
    return bool(touched & switching) and bool(_manifest(work, str(plan.current)))


def _manifest(work: Work, release: str) -> dict[str, Any]:
    releases = work.answers.get("releases") or {}
    found = releases.get("releases", {}).get(release)
    return dict(found) if found else {}


def restore(run: RunRecord, work: Work, plan: HostPlan) -> None:
    """Bring the previous release back and prove it ready. The record says whether it is."""
    previous = str(plan.current)
    manifest = _manifest(work, previous)
    wanted = previous_deployment(work.wanted, manifest)
    session, name = work.connected.session, wanted.profile.name
    session.call("releases.record", profile=name, entry=ledger.phase(run, work.record, "restoring"))
    work.listen(events.StepNote(work.wanted.host.name, "restore", f"going back to {previous}"))
    environment = str(manifest["identity"]["environment"])
    back = Work(
        wanted,
        work.connected,
        work.answers,
        ReleasePaths(name, previous, environment),
        work.listen,
        replace(work.record, steps=[]),
        work.stack,
    )
    try:
        session.call("units.stop", name=name, grace=wanted.profile.serve.stop_grace)
    except RemoteError as error:
        work.record.error = error
        return
    why = f"release {work.release.release} failed"
    for step in (STEPS[step] for step in WAY_BACK):
        change = Change("serving release", work.release.release, previous, why)
        ended = run_step(back, PlannedStep(step, Plan("change", (change,))))
        work.record.steps.append(replace(ended, step=f"restore-{ended.step}"))
        if ended.error is not None:
            return
    work.record.restored = True


def previous_deployment(wanted: Deployment, manifest: dict[str, Any]) -> Deployment:
    """What was wanted when the previous release was made, as its manifest keeps it."""
    profile = Profile.model_validate(manifest["wanted"])
    return replace(
        wanted,
        profile=profile,
        skip=frozenset(manifest.get("skip", ())),
        options={"launch": {RESTORE: True}},
    )
