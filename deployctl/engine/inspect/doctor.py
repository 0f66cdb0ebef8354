"""Examine this machine and hosts without touching them: everything that can be wrong before a
deployment, what `preflight` would check among it.
"""

from __future__ import annotations

import os
import time
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, ask, connect
from deployctl.engine.connections.fan_out import told
from deployctl.engine.connections.pool import Slots, each
from deployctl.engine.inspect.checks import connection, registry
from deployctl.engine.inspect.checks.interface import Here, There, found
from deployctl.errors import HostError
from deployctl.steps import facts
from deployctl.steps.interface import Deployment, Question
from deployctl.steps.preflight import PreflightStep, findings_of
from deployctl.steps.release import identity_questions

SCHEMA = "deployctl.doctor/1"


def examine(profile: Profile | None) -> dict[str, Any]:
    """Every finding here (`here`), and on every host of a profile; one round trip a host and node.

    A host that cannot be reached has the stage at which the way to it ends, and an `error`.
    """
    here = Here(profile, os.environ)
    return {
        "schema": SCHEMA,
        "profile": profile.name if profile else None,
        "here": {
            "findings": [one.tell() for check in registry.HERE for one in check.judge(here)],
        },
        "hosts": _hosts(profile.by_machine()) if profile else [],
    }


def _hosts(profile: Profile) -> list[dict[str, Any]]:
    return each(profile.hosts, lambda host: _host(profile, host), Slots())


def _host(profile: Profile, host: HostSettings) -> dict[str, Any]:
    try:
        with connect(host) as connected:
            return {"host": host.name, "findings": _look(profile, host, connected)}
    except HostError as error:
        finding = connection.judge(error).tell()
        return {"host": host.name, "findings": [finding], "error": told(error)}


def _look(profile: Profile, host: HostSettings, connected: Connected) -> list[dict[str, Any]]:
    wanted = Deployment(profile, host)
    asked: list[Question[Any]] = [
        facts.release_state(wanted),
        *PreflightStep().questions(wanted),
        *identity_questions(wanted),
        *(question for check in registry.HOST for question in check.questions(wanted)),
    ]
    before = time.time()
    answers, _ = ask(connected, {str(q.key): q for q in asked})
    there = There(wanted, answers, (before, time.time()))
    way = "this machine" if host.local else "name, port, host key, login, Python"
    findings = [found("ssh" if host.ssh else host.way, "ok", way)]
    findings += [one for check in registry.HOST for one in check.judge(there)]
    return [finding.tell() for finding in [*findings, *findings_of(wanted, answers)]]
