"""Reaching a host over SSH once, and why it cannot be reached."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.host import SshSettings
from deployctl.errors import HostError
from deployctl.hosts.interface import Channel
from deployctl.hosts.ways.ssh import SshTransport
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.sshd import Sshd


def reach(settings: dict[str, Any], *argv: str) -> tuple[bytes, int | None]:
    """Run a program over SSH: its output and status."""
    way = SshTransport("gpu", SshSettings(**settings))
    try:
        channel = way.open(argv or ["true"])
        output = everything(channel)
        ending = channel.ending()
        channel.close()
        return output, ending.status
    finally:
        way.close()


def everything(channel: Channel) -> bytes:
    output = b""
    while data := channel.receive():
        output += data
    return output


def refusal(settings: dict[str, Any]) -> HostError:
    """Why the host cannot be reached; connecting leaves neither threads nor processes."""
    before = set(threading.enumerate())
    with pytest.raises(HostError) as caught:
        reach(settings)
    wait_for("the end of its threads", lambda: set(threading.enumerate()) <= before)
    assert caught.value.exit_code == 4 and caught.value.host == "gpu"
    assert caught.value.why and caught.value.next
    return caught.value


def fingerprint(key: Path) -> str:
    done = subprocess.run(
        ["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()[1]


def lock_key(key: Path, passphrase: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-N", passphrase, "-f", key], check=True, capture_output=True
    )


def add(server: Sshd, line: str) -> None:
    with server.config_file().open("a") as file:
        file.write(f"  {line}\n")
