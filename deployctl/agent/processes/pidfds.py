"""Processes held between the look and the stop, so that a reused pid is never taken for them.

A start time is exact to 10 ms only; a pidfd opened before the tables were read is exact.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Dict, Optional, Tuple

from . import processes

Identity = Tuple[int, int]
"""pid and start"""


class Handles:
    """Open pidfds by identity. One agent speaks to one controller, so there is one set."""

    def __init__(self) -> None:
        self._open: Dict[Identity, int] = {}
        self._lock = threading.Lock()

    def keep(self, opened: Dict[Identity, int]) -> None:
        """Hold these from now on, and let go of those of the look before."""
        with self._lock:
            for fd in self._open.values():
                os.close(fd)
            self._open = opened

    def take(self, pid: int, start: int) -> Optional[int]:
        """A pidfd of exactly this process; None when it is gone. The caller closes it."""
        with self._lock:
            held = self._open.get((pid, start))
            if held is not None:
                return None if ended(held) else os.dup(held)
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        stat = processes.read_stat(pid)
        if stat is not None and stat.start == start and not ended(fd):
            return fd
        os.close(fd)
        return None


HANDLES = Handles()


def ended(pidfd: int) -> bool:
    """Whether the process behind a pidfd has ended; it may still be a zombie."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
