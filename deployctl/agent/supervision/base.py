"""What every supervisor does, of a job, of a server, and of a server that waits for its turn."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ..core.atomic_files import boot_id
from ..core.redaction import LogMask
from ..processes import processes
from .watching import Waker, say


class Supervisor:
    """Starts programs whose processes are known by a mark (`NAME=VALUE` in their environment),
    follows each until it ends, and hides secrets in their log meanwhile.

    `record` is for others to read. What tells one supervisor from another is in `write`, which
    puts the record on disk, and in `look`, which is called at each tick.
    """

    tick = 1.0
    """Seconds between two looks."""

    def __init__(self, log: str, mark: str, record: Mapping[str, Any]) -> None:
        self.waker = Waker()
        self.mark = mark
        self.record: Dict[str, Any] = dict(record)
        self.mask = LogMask(log, ())
        self.unwritten = False

    def write(self) -> None:
        """Put the record on disk; raises OSError."""
        raise NotImplementedError

    def look(self) -> bool:
        """See to what is followed; whether it is to be followed no further."""
        return False

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide these from now on in what is added to the log."""
        self.mask = LogMask(self.mask.path, secrets)

    def tend(self) -> None:
        """Hide secrets in what was added; a disk that fails for a moment ends nothing."""
        with suppress(OSError):
            self.mask.tend()

    def save(self, **news: Any) -> None:
        """Record something new. A full disk ends nothing; it is tried again at each tick."""
        self.record.update(news)
        try:
            self.write()
            self.unwritten = False
        except OSError as error:
            if not self.unwritten:
                say("deployctl: cannot record: %s" % error)
            self.unwritten = True

    def spawn(
        self,
        argv: List[str],
        env: Mapping[str, str],
        secrets: Optional[Mapping[str, str]],
        **how: Any,
    ) -> "subprocess.Popen[bytes]":
        """Start a program with this environment, without standard input; raises OSError."""
        name, _, value = self.mark.partition("=")
        whole = {**env, **(secrets or {}), name: value}
        return subprocess.Popen(argv, env=whole, **{"stdin": subprocess.DEVNULL, **how})

    def follow(self, child: "subprocess.Popen[bytes]") -> bool:
        """Look again and again until a process has ended; false where following was ended before,
        by a look or a stop. The process stays to be waited for."""
        handle = os.pidfd_open(child.pid)
        try:
            while not self.waker.stopped:
                if self.unwritten:
                    self.save()
                if self.look():
                    return False
                if self.waker.wait(self.tick, [handle]):
                    return True
            return False
        finally:
            os.close(handle)


def identity(pid: int) -> Dict[str, Any]:
    """A process as pid and start; start None when it is gone already."""
    stat = processes.read_stat(pid)
    return {"pid": pid, "start": None if stat is None else stat.start}


def begun(serial: Optional[str], state: str) -> Dict[str, Any]:
    """What the record of a server's supervisor begins with."""
    return {
        "boot": boot_id(),
        "serial": serial,
        "supervisor": identity(os.getpid()),
        "state": state,
        "at": time.time(),
    }
