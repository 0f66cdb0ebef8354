"""This machine as a host: the same agent, started as a child process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from deployctl.config.host import HostSettings
from deployctl.errors import HostError, NoPython
from deployctl.hosts.interface import Ending

CLOSE_LIMIT = 3.0
"""Seconds from the end of its input until a child is killed."""
STDERR_KEPT = 4000


def way(host: HostSettings, reach: object) -> LocalTransport:
    """The way to this machine."""
    return LocalTransport(host.name)


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

    def explain(self, ending: Ending | None) -> HostError | None:
        """A child process knows no more than its ending says."""
        return None

    def close(self) -> None:
        """Nothing is kept open between channels."""


class LocalChannel:
    """A child process's streams."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        with ExitStack() as undo:
            self._stderr = undo.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=env,
                bufsize=0,
                # Ctrl-C is ours to handle: the agent must live to undo what was begun.
                start_new_session=True,
            )
            undo.pop_all()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._reading = threading.Lock()
        self._closing = threading.Lock()
        self._ending: Ending | None = None

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._stdin.write(view) or 0 :]
        except ValueError as error:
            raise BrokenPipeError(str(error)) from error

    def receive(self) -> bytes:
        with self._reading:
            if self._stdout.closed:
                return b""
            data = self._stdout.read(65536)
            if not data:
                self._stdout.close()  # it ended: `close` need not have waited for that
            return data

    def ending(self) -> Ending:
        with self._closing:
            return self._ending or self._end(5)

    def close(self) -> None:
        # Its input's end is the agent's sign to leave; a hung one is killed. Either way its
        # output ends, and with it whoever waits in `receive`.
        with suppress(OSError):
            self._stdin.close()
        with self._closing:
            if self._ending is None:
                self._end(CLOSE_LIMIT)
        # A file that another thread reads must not be closed; its end comes now.
        if self._reading.acquire(timeout=CLOSE_LIMIT):
            self._stdout.close()
            self._reading.release()

    def _end(self, patience: float) -> Ending:
        status: int | None
        try:
            status = self._process.wait(timeout=patience)
            if status < 0:
                status = None  # ended by a signal: it sent none
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            status = None
        with self._stderr:
            self._stderr.seek(0)
            words = self._stderr.read()[-STDERR_KEPT:].decode(errors="replace")
        self._ending = Ending(status, words)
        return self._ending
