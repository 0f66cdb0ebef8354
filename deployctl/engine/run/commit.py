"""The end of a run that passed: the release sealed with its evidence and made current, or noted as
prepared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployctl.agent.wire.stored import Written
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run import switch
from deployctl.engine.run.execute import Work
from deployctl.engine.run.plan import HostPlan
from deployctl.hosts.operations import release_status, releases
from deployctl.hosts.session import Call, known
from deployctl.steps.facts import GPUS, known_unit
from deployctl.steps.interface import RELEASE_PARTS, SERVER
from deployctl.steps.release import release_identity


def commit(run: RunRecord, work: Work, plan: HostPlan) -> None:
    """Seal what was proven. A release that was only prepared was not proven, and stays open."""
    record = work.record
    record.changed = any(step.status == "changed" for step in record.steps)
    starts = plan.has(SERVER)
    gates_only = all(planned.step.is_gate for planned in plan.steps)
    requests: list[Call[Any]] = []
    if starts or (gates_only and _serves_release(work)):
        requests.append(_seal(run, work, gates_only))
    if starts and work.wanted.member is not None:
        _ask(work, requests)
        _point_together(work, work.wanted.member.rank)
        requests = []
    elif starts:
        requests.append(switch.point(work.release))
    elif any(map(plan.has, RELEASE_PARTS)) and not switch.manifest_of(work, work.release.release):
        requests.append(_prepared(run, work))
    if starts:
        record.changed = record.changed or plan.current != work.release.release
    _ask(work, requests)


def _point_together(work: Work, rank: int) -> None:
    """Make it current once it is sealed on every rank's host; on the head's, which decides, first.
    Raises `PeerFailed`."""
    work.peers.meet("sealed")
    if rank:
        work.peers.meet("current")
    _ask(work, [switch.point(work.release)])
    if not rank:
        work.peers.meet("current")


def _ask(work: Work, requests: Sequence[Call[Any]]) -> None:
    for answer in work.connected.session.ask(requests) if requests else ():
        known(answer)


def _prepared(run: RunRecord, work: Work) -> Call[str]:
    told = {"run": run.run, "evidence": ledger.brief(work.evidence)}
    unit, release = work.release.unit_id, work.release.release
    return Call(release_status.write, **unit, release=release, kind="prepared", told=told)


def _serves_release(work: Work) -> bool:
    """Whether what was asked is the complete release at work: gates alone make none complete."""
    unit = known_unit(work.answers)
    if not switch.manifest_of(work, work.release.release):
        return False
    return unit["state"] == "running" and unit["release"] == work.release.release


def _seal(run: RunRecord, work: Work, gates_only: bool) -> Call[Written]:
    before = switch.manifest_of(work, work.release.release)
    evidence = {**before.get("evidence", {}), **work.evidence}
    unit, release = work.release.unit_id, work.release.release
    if gates_only or work.wanted.pinned is not None:
        # Measured or served again: what a release was built from stays what it was.
        kept = {**before, "evidence": ledger.brief(evidence), "sealed_by": run.run}
        return Call(releases.seal, **unit, release=release, manifest=kept)
    identity = release_identity(work.wanted, work.answers)
    manifest = ledger.manifest(work.wanted, work.record, identity, evidence)
    # The evidence of an earlier seal comes without them; the same id stands on the same packages.
    manifest["packages"] = manifest["packages"] or before.get("packages")
    manifest["sealed_by"] = run.run
    manifest["gpu"] = ledger.gpu(work.answers.get(GPUS))
    return Call(releases.seal, **unit, release=release, manifest=manifest)
