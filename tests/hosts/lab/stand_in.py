"""This machine standing in for hosts of all kinds: what its login shell does is up to the test."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from deployctl.errors import HostError
from deployctl.hosts.local import LocalChannel, LocalTransport
from deployctl.hosts.session import Limits, Session

QUICK = Limits(start=10, ping=0.1, dead=0.5, silence=30)


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


def start(script: str, root: Path, python: str = "python3", limits: Limits = QUICK) -> Session:
    return Session(StandInHost(script), root=str(root), python=python, limits=limits)


def refusal(script: str, root: Path, python: str = "python3", limits: Limits = QUICK) -> HostError:
    """Why no agent started; no thread and no process is left of it."""
    before = set(threading.enumerate())
    with pytest.raises(HostError) as caught:
        start(script, root, python, limits)
    assert set(threading.enumerate()) <= before
    assert caught.value.exit_code == 4
    return caught.value
