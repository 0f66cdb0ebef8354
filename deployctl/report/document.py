"""The report as one JSON document: what was asked, measured and decided.

Schema `deployctl.report/1`. Readers may rely on every key; later versions add, never rename.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.engine.ledger.record import HostRecord, RunRecord, StepRecord
from deployctl.engine.run.plan import HostPlan
from deployctl.errors import DeployError
from deployctl.steps.interface import Change
from deployctl.steps.servers.stopping import cut_off

SCHEMA = "deployctl.report/1"
PLAN_SCHEMA = "deployctl.plan/1"


def report(record: RunRecord) -> dict[str, Any]:
    """The document of a run. Times are UTC, durations seconds."""
    return {
        "schema": SCHEMA,
        "run": record.run,
        "profile": record.profile,
        "playbook": record.playbook,
        "outcome": record.outcome,
        "exit_code": record.exit_code,
        "started": f"{record.started:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round(record.seconds, 3),
        "hosts": [_host(host) for host in record.hosts],
    }


def _host(host: HostRecord) -> dict[str, Any]:
    return {
        "host": host.host,
        "unit": host.unit,
        "wave": host.wave,
        "release": host.release,
        "previous": host.previous,
        "changed": host.changed,
        "restored": host.restored,
        "earlier": host.earlier,
        "declined": host.declined,
        "held_back": host.held_back,
        "round_trips": host.round_trips,
        "without_service": host.without_service and round(host.without_service, 3),
        "still_without_service": host.still_without_service,
        "cut_off": cut_off(step.evidence for step in host.steps if step.status != "unchanged"),
        "gaps": [round(gap, 3) for gap in host.outages],
        "error": _error(host.error),
        "way_back_error": _error(host.rollback_error),
        "serves_on": host.still_serving,
        "took_up": host.recovered_run,
        "deliveries": [delivery.document() for delivery in host.deliveries],
        "steps": [_step(step) for step in host.steps],
    }


def _step(step: StepRecord) -> dict[str, Any]:
    document: dict[str, Any] = {
        "step": step.step,
        "status": step.status,
        "seconds": round(step.seconds, 3),
        "evidence": step.evidence,
    }
    if step.reason:
        document["reason"] = step.reason
    if step.changes:
        document["changes"] = [_change(change) for change in step.changes]
    if step.error is not None:
        document["error"] = step.error.parts()
    return document


def _change(change: Change) -> dict[str, Any]:
    return {"what": change.what, "old": change.old, "new": change.new, "why": change.why}


def _error(error: DeployError | None) -> dict[str, str] | None:
    return None if error is None else error.parts()


def plan(profile: str, playbook: str, surveyed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document of `deployctl plan`, from what `engine.run.survey` found."""
    plans: list[HostPlan] = [host["plan"] for host in surveyed if "plan" in host]
    return {
        "schema": PLAN_SCHEMA,
        "profile": profile,
        "playbook": playbook,
        "changes": any(p.changes for p in plans),
        "blocked": any(p.impossible for p in plans),
        "unknown": any(p.unknown for p in plans),
        "hosts": [_planned(host["plan"]) if "plan" in host else dict(host) for host in surveyed],
    }


def _planned(host: HostPlan) -> dict[str, Any]:
    return {
        "host": host.host,
        "release": host.release,
        "current": host.current,
        "for_release": host.for_release,
        "handover": host.handover,
        "deliveries": [delivery.document() for delivery in host.deliveries],
        "blocked": host.impossible.step.name if host.impossible else None,
        "unknown": [p.step.name for p in host.unknown],
        "steps": [
            {
                "step": p.step.name,
                "status": p.plan.status,
                "reason": p.plan.reason,
                "changes": [_change(change) for change in p.plan.changes],
                "evidence": p.plan.evidence,
            }
            for p in host.steps
        ],
    }
