"""Supervises a server that has imported everything and waits for the word, beside what serves.

Directory of a waiting server (`@/profiles/PROFILE/units/UNIT/next`)::

    spec.json      as a server's, and: how to start what waits, and for how long it may
    secrets.json   secret variables, mode 0600
    launcher.py    the program that waits
    record.json    what has become of it: state, pid, start, what it reported
    word           a FIFO, mode 0600: the serial is the word to serve
    server.log     its output so far

States: warming · waiting · failed · ended. With the word its supervisor takes the unit's own lock
and goes on as the supervisor of the unit's server. Without it, it ends, whatever became of who
began it: `limit` bounds the wait, and what waits ends with its supervisor.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Dict, List, NamedTuple, Optional

from ..core.atomic_files import boot_id, read_json, write_json
from ..core.interface import PRIVATE, USUAL_UMASK
from ..processes import processes
from . import server
from .base import Supervisor, begun, identity
from .watching import lock

WITHIN = 10.0
"""Seconds in which the unit's lock is free, and what waits has heard the word."""
GRACE = 2.0


class Given(NamedTuple):
    """A server that has heard the word: its process, and what it reported."""

    child: "subprocess.Popen[bytes]"
    told: Dict[str, Any]


class Waiting(Supervisor):
    """Keeps one waiting server until the word comes, or its time is over."""

    def __init__(self, directory: str, served: str) -> None:
        self.directory, self.served = directory, served
        self.spec = read_json(self.file("spec.json")) or {}
        serial = self.spec.get("serial")
        mark = "%s=%s" % (server.MARK, serial)
        super().__init__(self.file("server.log"), mark, begun(serial, "warming"))
        self.report = self.word = -1
        self.heard = b""
        self.lock: Optional[int] = None
        """The unit's own lock, once it is taken."""

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @property
    def wanted(self) -> bool:
        """Whether it is to wait; a supervisor that starts with the machine has nothing to wait
        for."""
        return self.spec.get("boot") == boot_id()

    def write(self) -> None:
        write_json(self.file("record.json"), self.record)

    def note(self, state: str, **more: Any) -> None:
        """Record a state for others to read."""
        self.save(state=state, at=time.time(), **more)

    def handed_over(self) -> Optional[Given]:
        """Start it and wait; the server that has heard the word, or None where it has ended."""
        self.word = os.open(self.file("word"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            child = self._start()
        except OSError as error:
            self.note("failed", why=str(error))
            return None
        try:
            why = self._until_word(child) or self._hand_over(child)
        except BaseException:
            self._end(child)
            raise
        finally:
            os.close(self.word)
        if why:
            rc = child.poll()
            self._end(child)
            with suppress(OSError):
                os.unlink(self.file("secrets.json"))
            self.note("failed" if rc is not None else "ended", why=why, rc=rc)
            return None
        return Given(child, self.record["told"])

    def _start(self) -> "subprocess.Popen[bytes]":
        secrets = read_json(self.file("secrets.json")) or {}
        self.hide(secrets.values())
        self.report, told = os.pipe()
        os.set_blocking(self.report, False)
        with open(self.file("server.log"), "wb") as log:
            child = self.spawn(
                [*self.spec["warm"], str(told)],
                self.spec["env"],
                secrets,
                cwd=self.spec["cwd"],
                umask=self.spec.get("umask", USUAL_UMASK),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[told],
                start_new_session=True,
            )
        os.close(told)
        self._tell(child, json.dumps(self.spec["argv"]))
        who = identity(child.pid)
        self.note("warming", pid=child.pid, start=who["start"])
        return child

    def _until_word(self, child: "subprocess.Popen[bytes]") -> str:
        """Wait; why it is to end, or nothing where the word came."""
        end = time.monotonic() + self.spec["patience"]
        fd = os.pidfd_open(child.pid)
        try:
            while not self.waker.stopped:
                left = end - time.monotonic()
                if left <= 0.0:
                    return "it waited for too long"
                ready = self.waker.wait(min(left, self.tick), [fd, self.report, self.word])
                told = self._hear() if self.report in ready else None
                if told is not None:
                    end = time.monotonic() + self.spec["limit"]
                    self.note("waiting", told=told)
                if fd in ready:
                    return "it ended while it was warmed"
                if self.word in ready and self.serial in os.read(self.word, 4096).split():
                    return "" if self.record["state"] == "waiting" else "it was not warm yet"
                self.tend()
                if (self._own() or {}).get("serial") != self.spec["serial"]:
                    return "it is not wanted any more"
        finally:
            os.close(fd)
        return "it was stopped"

    @property
    def serial(self) -> bytes:
        return str(self.spec["serial"]).encode()

    def _own(self) -> Optional[Dict[str, Any]]:
        with suppress(OSError, ValueError):
            return read_json(self.file("spec.json"))
        return None

    def _hand_over(self, child: "subprocess.Popen[bytes]") -> str:
        """Take the unit's lock and pass the word on; why that failed, or nothing."""
        end = time.monotonic() + WITHIN
        while self.lock is None:
            if self.waker.stopped:
                return "it was stopped"
            self.lock = lock(os.path.join(self.served, "supervisor.lock"))
            if self.lock is None:
                if time.monotonic() > end:
                    return "the unit's last supervisor does not end"
                self.waker.wait(0.02, [])
        spec = read_json(os.path.join(self.served, "spec.json")) or {}
        if spec.get("serial") != self.spec["serial"]:
            return "the unit is to serve something else"
        self._tell(child, "serve")
        while time.monotonic() < end and not self.waker.stopped:
            self.waker.wait(0.1, [self.report])
            told = self._hear()
            if told is not None:
                self.record["told"].update(told)
                assert child.stdin is not None
                child.stdin.close()
                return ""
            if child.poll() is not None:
                return "it ended at the word"
        return "it did not hear the word"

    def _tell(self, child: "subprocess.Popen[bytes]", line: str) -> None:
        assert child.stdin is not None
        with suppress(BrokenPipeError):
            child.stdin.write(line.encode() + b"\n")
            child.stdin.flush()

    def _hear(self) -> Optional[Dict[str, Any]]:
        """A line of its report, once it is complete."""
        with suppress(BlockingIOError):
            self.heard += os.read(self.report, 65536)
        line, end, rest = self.heard.partition(b"\n")
        if not end:
            return None
        self.heard = rest
        found: Dict[str, Any] = json.loads(line)
        return found

    def _end(self, child: "subprocess.Popen[bytes]") -> None:
        serial = str(self.spec["serial"])
        self.tend()
        processes.stop_all(lambda: server.family(child.pid, serial), GRACE)
        if child.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        child.wait()


def supervise(directory: str, waits: str) -> int:
    """Entry of the supervising process of a server that may be started before its turn."""
    os.umask(PRIVATE)
    waiting = Waiting(waits, directory)
    if not waiting.wanted:
        return server.supervise(directory)
    held: List[Optional[int]] = [lock(os.path.join(waits, "supervisor.lock"))]
    if held[0] is None:
        print("deployctl: another server waits here", file=sys.stderr)
        return 0
    given = waiting.handed_over()
    if given is None:
        return 0
    supervisor = server.ServerSupervisor(directory)
    supervisor.waker.stopped |= waiting.waker.stopped
    # Nothing waits any more: the next one may be warmed.
    for name in ("spec.json", "record.json", "secrets.json", "word"):
        with suppress(OSError):
            os.unlink(waiting.file(name))
    for handle in (held[0], waiting.report):
        os.close(handle)
    return supervisor.run(given.child, given.told)
