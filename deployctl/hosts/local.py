"""This machine as a host: the same agent, started as a child process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from deployctl.errors import NoPython
from deployctl.hosts.interface import Ending


class LocalTransport:
    """Starts programs on this machine; `python3` means the Python that runs deployctl."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, argv: Sequence[str]) -> LocalChannel:
        program = sys.executable if argv[0] == "python3" else argv[0]
        try:
            return LocalChannel([program, *argv[1:]])
        except OSError as error:
            raise NoPython(self.name, f"{program} cannot be started", str(error)) from error

    def close(self) -> None:
        """Nothing is kept open between channels."""


class LocalChannel:
    """A child process's streams."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            # Ctrl-C is ours to handle: the agent must live to undo what was begun.
            start_new_session=True,
        )

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) or 0 :]

    def receive(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.read(65536)

    def ending(self) -> Ending:
        try:
            status: int | None = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            status = None
        self._stderr.seek(0)
        return Ending(status, self._stderr.read()[-4000:].decode(errors="replace"))

    def close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
