"""One run at a time for a profile on a host: a kernel lock that the host's agent holds."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from typing import Any

from deployctl.agent.wire.answers import Held
from deployctl.errors import LockHeld, RemoteError
from deployctl.hosts.operations import releases
from deployctl.hosts.session import Call
from deployctl.steps.identity import MAIN, replica_number


def holder(run: str) -> dict[str, Any]:
    """Who takes the lock, as another run will name us."""
    return {
        "run": run,
        "user": _user(),
        "from": socket.gethostname(),
        "pid": os.getpid(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def take(
    profile: str, run: str, wait: float = 0.0, playbook: str = "", unit: str = MAIN
) -> Call[Held]:
    """The request that takes the lock; it travels with the questions. Each of several replicas on
    a host has one of its own."""
    named = {**holder(run), "playbook": playbook}
    about = {} if replica_number(unit) in (None, 1) else {"unit": unit}
    return Call(releases.lock, profile=profile, holder=named, wait=wait, **about)


def describe(named: Mapping[str, Any]) -> str:
    """A holder in words."""
    who = f"{named.get('user', 'someone')} from {named.get('from', 'an unknown machine')}"
    does = f" ({named['playbook']})" if named.get("playbook") else ""
    run, pid = named.get("run", "unknown"), named.get("pid", "unknown")
    return f"run {run}{does} by {who}, pid {pid}"


def held(host: str, error: RemoteError, waits: bool = True, profile: str = "") -> LockHeld:
    """The outcome of a run that found the lock taken; `waits` where it could wait for it, `profile`
    where it is another one's."""
    named = error.detail if isinstance(error.detail, Mapping) else {}
    whose = f" of profile {profile}" if profile else ""
    return LockHeld(
        f"{host}: another run is in progress, this one is skipped",
        f"the lock{whose} is held by {describe(named)}",
        "wait for it to end, or give --lock-wait 10m" if waits else "wait for it to end",
    )
