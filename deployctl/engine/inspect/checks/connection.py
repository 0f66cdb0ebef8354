"""How far the way to a host leads: each stage by name. Pure."""

from __future__ import annotations

from deployctl.engine.inspect.checks.interface import found
from deployctl.errors import (
    AccessRefused,
    ChangedHostKey,
    ConnectionLost,
    DeployError,
    HostError,
    NoPython,
    UnknownHostKey,
)
from deployctl.steps.gpus.finding import Finding

STAGES: tuple[tuple[str, type[DeployError], str], ...] = (
    ("host key", UnknownHostKey, ""),
    ("host key", ChangedHostKey, ""),
    ("login", AccessRefused, ""),
    ("python", NoPython, ""),
    ("agent", ConnectionLost, ""),
    ("directory", HostError, "agent's directory"),
    ("configuration", HostError, "ssh_config"),
    ("jump", HostError, "jump host"),
    ("jump", HostError, " through "),
    ("name", HostError, "cannot be resolved"),
    ("proxy command", HostError, "ProxyCommand"),
    ("container", HostError, "container"),
    ("algorithms", HostError, "algorithm"),
    ("greeting", HostError, "does not speak SSH"),
    ("program", HostError, "does not start a program"),
    ("connection", HostError, ""),
)
"""Stages of a connection, by the error that ends it and words of it; the first that fits."""


def stage(error: DeployError) -> str:
    """The stage at which the way to a host ends."""
    return next(
        name for name, kind, words in STAGES if isinstance(error, kind) and words in error.what
    )


def judge(error: HostError) -> Finding:
    """The finding for a host that could not be reached."""
    why = f" ({'; '.join(error.why.splitlines()[:3])})" if error.why else ""
    after = f"; {error.next}" if error.next else ""
    say = f"{error.what.removeprefix(f'{error.host}: ')}{why}{after}"
    return found("ssh", "failed", stage(error), say)
