"""What is kept of a release that failed: what it was built from, why it failed, and its log."""

from __future__ import annotations

from typing import Any

from deployctl import cancel
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run import switch
from deployctl.engine.run.execute import Work
from deployctl.errors import ConnectionLost, DeployError, Interrupted, RemoteError
from deployctl.hosts.operations import release_status
from deployctl.hosts.session import Call
from deployctl.steps import registry
from deployctl.steps.facts import GPUS
from deployctl.steps.interface import SERVER, Unanswered
from deployctl.steps.release import release_identity


def keep(run: RunRecord, work: Work, failure: DeployError) -> None:
    """Keep it, where its server was to be started by this run; before anything else is started.

    A release that was complete before stays so, and one that was interrupted has not failed.
    """
    starting = registry.makers(SERVER)
    begun = [step.step for step in work.record.steps if step.step in starting and step.attempted]
    if not begun:
        return
    unit, release = work.release.unit_id, work.release.release
    calls: list[Call[Any]] = [Call(release_status.keep_log, **unit, release=release)]
    if not switch.manifest_of(work, release) and not isinstance(failure, Interrupted):
        told = _told(run, work, failure)
        write = release_status.write
        calls.append(Call(write, **unit, release=release, kind="failed", told=told))
    try:
        with cancel.shielded():
            answers = work.connected.session.ask(calls)
    except ConnectionLost:
        return
    for answer in answers:
        if isinstance(answer, RemoteError):
            work.context(begun[0]).log(f"the failed release is kept only in part: {answer}")


def _told(run: RunRecord, work: Work, failure: DeployError) -> dict[str, Any]:
    try:
        identity = release_identity(work.wanted, work.answers)
    except Unanswered:
        identity = {}
    manifest = ledger.manifest(work.wanted, work.record, identity, work.evidence)
    manifest["gpu"] = ledger.gpu(work.answers.get(GPUS))
    return {**manifest, "verdict": "failed", "error": failure.what, "failed_in": run.run}
