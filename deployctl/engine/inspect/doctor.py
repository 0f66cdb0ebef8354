"""Examine hosts without touching them: what `preflight` would check, and every finding of it."""

from __future__ import annotations

from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.run.connect import Connected
from deployctl.engine.run.fan_out import fan_out
from deployctl.engine.run.plan import ask
from deployctl.steps import facts
from deployctl.steps.interface import Deployment
from deployctl.steps.preflight import PreflightStep, findings_of

SCHEMA = "deployctl.doctor/1"


def examine(profile: Profile) -> dict[str, Any]:
    """Every finding on every host of the profile; one round trip a host and node."""

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        wanted = Deployment(profile, host)
        asked = (facts.release_state(wanted), *PreflightStep().questions(wanted))
        answers, _ = ask(connected, {str(q.key): q for q in asked})
        return {"findings": [finding.tell() for finding in findings_of(wanted, answers)]}

    return {"schema": SCHEMA, "profile": profile.name, "hosts": fan_out(profile, look)}
