"""What a run writes into the host's ledger and into a release's manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl import __version__
from deployctl.agent.wire.gpus import GpuState
from deployctl.config.profile import Profile
from deployctl.engine.ledger.lock import holder
from deployctl.engine.ledger.record import HostRecord, RunRecord, StepRecord
from deployctl.steps import registry
from deployctl.steps.interface import SERVER, SERVICE, Deployment
from deployctl.steps.measuring.gates import ASKED, MEASURED, PROCESS
from deployctl.steps.servers.stopping import cut_off


def profile_digest(profile: Profile) -> str:
    """The SHA-256 of the resolved profile, by which two runs see that they want the same."""
    text = json.dumps(profile.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def begun(
    run: RunRecord, host: HostRecord, profile: Profile, current: str | None
) -> dict[str, Any]:
    """The entry that opens a run; without an `end` after it the controller died in between."""
    return {
        "kind": "begin",
        **holder(run.run),
        "unit": host.unit,
        "playbook": run.playbook,
        "profile_digest": profile_digest(profile),
        "release": host.release,
        "current": current,
    }


def failed_before(
    entries: Sequence[Mapping[str, Any]], release: str | None, digest: str
) -> str | None:
    """The run in which this release failed under a profile of this digest, if that was its last.

    `entries` are a ledger's, oldest first. Only starting and gates count: a build or a download
    that failed may succeed the next time.
    """
    judging = registry.makers(SERVER, SERVICE) | registry.names("gate")
    same = {e.get("run") for e in entries if e.get("profile_digest") == digest}
    for entry in reversed(entries):
        if entry.get("kind") == "end" and entry.get("release") == release:
            failed = bool({*entry.get("failed", ())} & judging)
            return str(entry["run"]) if failed and entry["run"] in same else None
    return None


def phase(
    run: RunRecord, host: HostRecord, name: str, why: str = "", step: str = ""
) -> dict[str, Any]:
    """The entry that says how far the run is: staging, switching, or restoring and why.

    `changed` are the steps that have changed something until now, `step` the one that begins.
    """
    changed = [s.step for s in host.steps if s.status == "changed"]
    about = {"run": run.run, "unit": host.unit, "release": host.release}
    more = {"why": why, "step": step, "changed": changed}
    return {
        "kind": "phase",
        **about,
        "phase": name,
        **{key: value for key, value in more.items() if value},
    }


def ended(run: RunRecord, host: HostRecord, outcome: str) -> dict[str, Any]:
    """The entry that closes a run, with its figures."""
    return {
        "kind": "end",
        "run": run.run,
        "unit": host.unit,
        "playbook": run.playbook,
        "release": host.release,
        "outcome": outcome,
        "changed": [s.step for s in host.steps if s.status == "changed"],
        "failed": [s.step for s in host.steps if s.status == "failed"],
        "error": host.error.what if host.error else None,
        "without_service": host.without_service,
        "gaps": host.outages,
        "restored": host.restored,
        "cut_off": cut_off(step.evidence for step in host.steps if step.status != "unchanged"),
        "figures": figures(host),
        "verdicts": verdicts(host),
    }


def figures(host: HostRecord) -> dict[str, Any]:
    """The numbers by which runs are compared; empty for a run that did not measure them."""
    known = registry.steps()
    return {
        name: step.evidence[name]
        for step in _measured(host)
        if step.step in known
        for name in known[step.step].figures
        if name in step.evidence
    }


def verdicts(host: HostRecord) -> dict[str, Any]:
    """Each gate's verdict of this very run: on which process, when, and about what (the digest of
    what was asked), so that a later run can trust it."""
    names = ("verdict", ASKED, PROCESS, MEASURED)
    return {
        step.step: {name: step.evidence.get(name) for name in names}
        for step in _measured(host)
        if step.step in registry.names("gate") and "verdict" in step.evidence
    }


def _measured(host: HostRecord) -> list[StepRecord]:
    """The steps that measured: one left unchanged carries the evidence of an earlier run."""
    return [step for step in host.steps if step.attempted and step.status != "unchanged"]


def manifest(
    wanted: Deployment, host: HostRecord, identity: Mapping[str, Any], evidence: Mapping[str, Any]
) -> dict[str, Any]:
    """What a release is built from and what proved it.

    The resolved profile lies in it whole (it names secrets and never holds one), so that the
    release can be restored with its original configuration.
    """
    profile = wanted.profile
    return {
        "schema": "deployctl.manifest/1",
        "release": host.release,
        "profile": profile.name,
        "profile_digest": profile_digest(profile),
        "deployctl": __version__,
        "wanted": profile.by_machine().model_dump(mode="json", by_alias=True),
        "skip": sorted(wanted.skip),
        "identity": dict(identity),
        **made_from(evidence),
        "evidence": brief(evidence),
    }


def made_from(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """What the steps' evidence says of a release's parts; the same keys whatever is missing."""
    found: dict[str, Any] = {}
    for name, step in registry.steps().items():
        found |= step.manifest(evidence.get(name) or {})
    return found


def brief(evidence: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The steps' evidence without the list of packages, which stands in the manifest itself."""
    return {
        step: {name: value for name, value in found.items() if name != "packages"}
        for step, found in evidence.items()
    }


def gpu(state: GpuState | None) -> dict[str, Any]:
    """Driver and cards of a host, from its agent's `gpu.state`; empty where unknown."""
    if not state:
        return {}
    rows = state["gpus"]
    return {
        "present": state["present"],
        "reason": state["reason"],
        "drivers": sorted({driver for row in rows if (driver := row["driver"])}),
        "cards": [row["name"] for row in rows],
    }
