"""Builds and downloads that go on by themselves on a profile's hosts, ended on request."""

from __future__ import annotations

from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.fan_out import fan_out
from deployctl.errors import UsageError
from deployctl.hosts.operations import jobs

SCHEMA = "deployctl.jobs/1"


def stop(profile: Profile, job: str) -> dict[str, Any]:
    """End a job with everything that it started, on each host that has it: `was` and `state` say
    how it stood before and after. Raises `UsageError` where no host has it."""
    running: list[str] = []

    def end(host: HostSettings, connected: Connected) -> dict[str, Any]:
        session = connected.session
        known = {one["id"]: one["state"] for one in session.call(jobs.listing)}
        running.extend(name for name, state in known.items() if state == "running")
        if job not in known:
            return {}
        ended = session.call(jobs.stop, id=job)
        told = {"was": known[job], "state": ended["state"], "members": ended.get("members", [])}
        return {"job": job, **told}

    hosts = [
        host for host in fan_out(profile.by_machine(), end) if "job" in host or "error" in host
    ]
    if not hosts:
        at_work = ", ".join(dict.fromkeys(running)) or "none"
        raise UsageError(f"there is no job {job}", next=f"jobs that run: {at_work}")
    return {"schema": SCHEMA, "hosts": hosts}
