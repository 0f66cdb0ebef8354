"""This machine standing in for hosts of all kinds: what its login shell does is up to the test."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from deployctl.errors import HostError
from deployctl.hosts.session import Limits, Session
from deployctl.hosts.ways.local import LocalChannel, LocalTransport
from tests.hosts.lab.namespaces import wait_for

QUICK = Limits(start=60, ping=0.1, dead=5, silence=60)
"""Gives its host up soon: for tests of hosts that stop answering."""
PATIENT = Limits(start=60, ping=4, dead=60, silence=120)


class StandInHost(LocalTransport):
    """This machine, whose login shell runs `script` first, with the program as its arguments."""

    def __init__(self, script: str) -> None:
        super().__init__("stand-in")
        self.script = script
        self.channels: list[LocalChannel] = []

    def open(self, argv: Sequence[str]) -> LocalChannel:
        program = [sys.executable, *argv[1:]] if argv[0] == "python3" else list(argv)
        channel = LocalChannel(["/bin/sh", "-c", self.script, "sh", *program])
        self.channels.append(channel)
        return channel


def start(script: str, root: Path, python: str = "python3", limits: Limits = PATIENT) -> Session:
    return Session(StandInHost(script), root=str(root), python=python, limits=limits)


def refusal(
    script: str, root: Path, python: str = "python3", limits: Limits = PATIENT
) -> HostError:
    """Why no agent started; no thread and no process is left of it."""
    before = set(threading.enumerate())
    with pytest.raises(HostError) as caught:
        start(script, root, python, limits)
    wait_for("the end of its threads", lambda: set(threading.enumerate()) <= before)
    assert caught.value.exit_code == 4
    return caught.value
