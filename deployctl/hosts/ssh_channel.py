"""The streams of one program on a machine reached by SSH, and an end to what paramiko waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import paramiko

from deployctl.hosts.interface import Ending

CLOSE_LIMIT = 3.0
"""Seconds that a polite end of a channel may take before its connection is cut."""
STDERR_KEPT = 4000


class SshChannel:
    """The streams of one program on the far side. `cut` ends its whole connection at once."""

    def __init__(self, channel: paramiko.Channel, cut: Callable[[], None]) -> None:
        self._channel = channel
        self._cut = cut
        self._stderr = bytearray()
        # Both streams share one window: a stderr that is not read would stop stdout.
        self._drain = threading.Thread(target=self._keep_stderr, name="stderr", daemon=True)
        self._drain.start()

    def send(self, data: bytes) -> None:
        self._channel.sendall(data)

    def receive(self) -> bytes:
        return self._channel.recv(65536)

    def ending(self) -> Ending:
        self._drain.join(timeout=5)
        # -1 is paramiko's word for a dropped connection as well as for a signal: neither is a
        # status of the program.
        known = self._channel.status_event.wait(timeout=5)
        status = self._channel.exit_status if known and self._channel.exit_status >= 0 else None
        return Ending(status, bytes(self._stderr).decode(errors="replace"))

    def close(self) -> None:
        # Its input's end is the agent's sign to leave; its locks have fallen once its status comes.
        with suppress(EOFError, OSError, paramiko.SSHException), within(CLOSE_LIMIT, self._cut):
            self._channel.shutdown_write()
            self._channel.status_event.wait(CLOSE_LIMIT)
            self._channel.close()
        self._drain.join(timeout=CLOSE_LIMIT)

    def _keep_stderr(self) -> None:
        with suppress(OSError):
            while data := self._channel.recv_stderr(65536):
                self._stderr += data
                del self._stderr[:-STDERR_KEPT]


@contextmanager
def within(seconds: float, end: Callable[[], None]) -> Iterator[None]:
    """Call `end` should the body take longer: paramiko waits for some answers without a limit."""
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
