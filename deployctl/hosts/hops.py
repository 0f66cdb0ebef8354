"""What a connection may lead through: a channel of a jump host, or a ProxyCommand."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from contextlib import suppress
from typing import Any

import paramiko

CLOSE_LIMIT = 3.0
"""Seconds that a ProxyCommand may take to end before it is killed."""
STDERR_KEPT = 4000


class JumpChannel:
    """A jump host's channel as the socket of the connection behind it.

    Closing it notifies the jump host; over a connection that is closing as well that fails, and
    paramiko's own thread would end by that error.
    """

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None:
        with suppress(EOFError, OSError, paramiko.SSHException):
            self._channel.close()


class ProxyProcess:
    """A ProxyCommand, run as OpenSSH runs it: by a shell, its streams being the connection."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.socket, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        with theirs:
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._stderr,
                start_new_session=True,
            )

    def status(self, ends: bool = False) -> int | None:
        """How it ended; None while it runs. One that `ends`, having closed its streams, is waited
        for."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(CLOSE_LIMIT if ends else 0)
        return None

    def words(self) -> str:
        """What it wrote to its stderr, the end of it."""
        self._stderr.seek(0)
        return self._stderr.read()[-STDERR_KEPT:].decode(errors="replace").strip()

    def close(self) -> None:
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=CLOSE_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()
