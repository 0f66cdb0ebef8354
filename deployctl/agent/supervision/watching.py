"""What supervisors are made with: how they are woken, what they print, and where a log goes when
the next one begins."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import tempfile
from contextlib import suppress
from secrets import token_hex
from typing import Any, Dict, List, Mapping, Optional


class Waker:
    """Wakes a `select` when SIGTERM or SIGINT arrives, and remembers that it did."""

    def __init__(self) -> None:
        self.stopped = False
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._write)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self.stopped = True

    def wait(self, seconds: float, fds: List[int]) -> List[int]:
        """Those of `fds` that are ready, at the latest after `seconds` or a stop."""
        ready, _, _ = select.select([self._read, *fds], [], [], max(0.0, seconds))
        return [fd for fd in ready if fd != self._read]


def user(run_as: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Arguments of Popen for a program of another user; none where it is ours already."""
    if run_as is None or (run_as["uid"], run_as["gid"]) == (os.geteuid(), os.getegid()):
        return {}
    return {"user": run_as["uid"], "group": run_as["gid"], "extra_groups": run_as["groups"]}


def folder_name() -> str:
    """A name for a server's own folder: short, since sockets are made in it, and not yet there."""
    return os.path.join(tempfile.gettempdir(), "deployctl-%s" % token_hex(4))


def empty_folder(path: str) -> None:
    """Make a folder of a server's own; raises OSError where it cannot be, or is another's."""
    remove_folder(path)
    os.mkdir(path, 0o700)


def remove_folder(path: Optional[str]) -> None:
    """Remove a server's own folder with all that is in it."""
    if path:
        shutil.rmtree(path, ignore_errors=True)


def set_aside(log: str) -> None:
    """Keep the last run's log as `LOG.1`, in place of the one before it."""
    with suppress(FileNotFoundError):
        os.replace(log, log + ".1")


def lock(path: str) -> Optional[int]:
    """Hold a lock until the descriptor is closed; None where somebody else holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def echo(data: bytes, patience: float = 1.0) -> int:
    """Pass bytes on to our output; how many it took. One that is gone, or stands still for
    `patience` seconds, takes no more."""
    taken = 0
    with suppress(OSError):
        while taken < len(data) and select.select([], [1], [], patience)[1]:
            taken += os.write(1, data[taken : taken + 65536])
    return taken


def say(text: str) -> None:
    """A line of our own on our output, whatever the locale and however full the disk."""
    echo((text + "\n").encode("utf-8", "surrogateescape"))
