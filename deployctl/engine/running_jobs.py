"""Builds and downloads that go on by themselves on a profile's hosts, ended on request."""

from __future__ import annotations

from typing import Any

from deployctl.config.profile import Profile
from deployctl.engine.connect import connect
from deployctl.errors import UsageError

SCHEMA = "deployctl.jobs/1"


def stop(profile: Profile, job: str) -> dict[str, Any]:
    """End a job with everything that it started, on each host that has it: `was` and `state` say
    how it stood before and after. Raises `UsageError` where no host has it."""
    hosts, running = [], []
    for host in profile.hosts:
        with connect(host) as connected:
            session = connected.session
            known = {str(one["id"]): str(one["state"]) for one in session.call("jobs.listing")}
            running += [name for name, state in known.items() if state == "running"]
            if job in known:
                ended = session.call("jobs.stop", id=job)
                told = {"was": known[job], "state": ended["state"], "members": ended["members"]}
                hosts.append({"host": host.name, "job": job, **told})
    if not hosts:
        at_work = ", ".join(dict.fromkeys(running)) or "none"
        raise UsageError(f"there is no job {job}", next=f"jobs that run: {at_work}")
    return {"schema": SCHEMA, "hosts": hosts}


def lines(document: dict[str, Any]) -> list[str]:
    """What became of the job, a line a host."""
    return [f"{one['host']}: {one['job']}: {_ended(one)}" for one in document["hosts"]]


def _ended(one: dict[str, Any]) -> str:
    if one["members"]:
        return f"these processes do not end: {', '.join(map(str, one['members']))}"
    return "stopped" if one["was"] == "running" else f"it did not run: {one['state']}"
