"""Examine hosts without touching them: what `preflight` would check, and every finding of it."""

from __future__ import annotations

from typing import Any

from deployctl.config.profile import Profile
from deployctl.engine.connect import connect
from deployctl.engine.plan import ask
from deployctl.steps.interface import Deployment, Question
from deployctl.steps.preflight import PreflightStep, findings_of

SCHEMA = "deployctl.doctor/1"


def examine(profile: Profile) -> dict[str, Any]:
    """Every finding on every host of the profile; one round trip a host and node."""
    hosts = []
    releases = Question("releases", "releases.state", {"profile": profile.name})
    for host in profile.hosts:
        wanted = Deployment(profile, host)
        asked = {q.key: q for q in (releases, *PreflightStep().questions(wanted))}
        with connect(host) as connected:
            answers, _ = ask(connected, asked)
        findings = [finding.tell() for finding in findings_of(wanted, answers)]
        hosts.append({"host": host.name, "findings": findings})
    return {"schema": SCHEMA, "profile": profile.name, "hosts": hosts}
