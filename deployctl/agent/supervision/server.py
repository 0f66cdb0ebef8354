"""Supervises one server, apart from the agent that started it.

Directory of a server (`@/profiles/NAME/server`)::

    spec.json      argv, env, cwd, log, release, limits, watched files
    secrets.json   secret variables, mode 0600
    kept           present once the start was proven: from then on failures are restarted;
                   holds the process that was proven
    record.json    what the supervisor did: state, pid, start, rc, restarts, loaded
    lock           held while it is being started or stopped
    supervisor.pyz a copy of the agent, so that a newer one never pulls it away
    server.log     the server's output, server.log.1 what was before
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional

from ..core.atomic_files import boot_id, read_json, write_json
from ..core.interface import PRIVATE, USUAL_UMASK
from ..core.redaction import LogMask
from ..core.regular_files import digest
from ..processes import processes

MARK = "DEPLOYCTL_SERVER"
"""The variable by which a server's processes are known, whatever session they made."""
SETTLE = 5.0
"""Seconds that the rest of a server's session gets to end after its main process has."""


def family(pid: Optional[int], serial: str) -> List[processes.Stat]:
    """Every living process of a server: of the session of its main process `pid` (None: that is
    not known), or started with its mark in a session of its own. A process may have overwritten
    its environment with its title; most have not."""
    mark = ("%s=%s" % (MARK, serial)).encode()
    return [
        stat
        for stat in processes.everyone()
        if stat.state not in "ZX" and (stat.session == pid or _marked(stat.pid, mark))
    ]


def _marked(pid: int, mark: bytes) -> bool:
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            # Another user could give the mark to any process.
            own = os.fstat(file.fileno()).st_uid == os.geteuid()
            return own and mark in file.read().split(b"\0")
    except OSError:
        return False


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


class Supervisor:
    """Keeps the server of one directory running until it is asked to stop or gives up."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.waker = Waker()
        self.spec = read_json(self.file("spec.json")) or {}
        self.limits: Dict[str, Any] = self.spec["limits"]
        self.record: Dict[str, Any] = {
            "boot": boot_id(),
            "serial": self.spec["serial"],
            "supervisor": identity(os.getpid()),
            "state": "starting",
            "restarts": 0,
        }
        self.failures: List[float] = []
        self.mask = LogMask(self.spec["log"], ())
        # One of an earlier version may be open to all.
        with suppress(OSError):
            os.chmod(self.spec["log"], 0o600)
        self.echoed = 0
        self.unwritten = False
        if self.spec["kind"] == "systemd":
            # A journal that stands still must not hold up the supervisor.
            os.set_blocking(1, False)

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def note(self, state: str, **more: Any) -> None:
        """Record a state for others to read, and say it where a journal listens."""
        self.record.update(state=state, at=time.time(), **more)
        self.write()
        shown = {key: value for key, value in more.items() if value is not None}
        say("%s %s" % (state, json.dumps(shown)))

    def write(self) -> None:
        """Write the record; a full disk leaves no server without a supervisor, it is retried."""
        try:
            write_json(self.file("record.json"), self.record)
            self.unwritten = False
        except OSError as error:
            if not self.unwritten:
                say("cannot record: %s" % error)
            self.unwritten = True

    def run(self) -> int:
        """Start, watch, restart; 0 when it was stopped, 1 when it gave up."""
        while True:
            child = self.start()
            rc = None if child is None else self.watch(child)
            if self.waker.stopped:
                self.note("stopped", rc=rc, ended=time.time())
                return 0
            if not self.may_restart():
                self.note("exited" if rc == 0 else "failed", rc=rc, ended=time.time())
                return 1
            self.record["restarts"] += 1
            self.note("starting", rc=rc, ended=time.time())
            self.waker.wait(min(2.0 ** len(self.failures), 30.0), [])
            if self.waker.stopped:
                self.note("stopped", rc=rc)
                return 0

    def start(self) -> "Optional[subprocess.Popen[bytes]]":
        env = dict(self.spec["env"])
        secrets = read_json(self.file("secrets.json")) or {}
        self.mask = LogMask(self.spec["log"], secrets.values())
        env.update(secrets)
        env[MARK] = self.spec["serial"]
        try:
            with open(self.spec["log"], "ab") as log:
                child = subprocess.Popen(
                    self.spec["argv"],
                    env=env,
                    cwd=self.spec["cwd"],
                    umask=self.spec.get("umask", USUAL_UMASK),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self.record["error"] = str(error)
            with suppress(OSError), open(self.spec["log"], "ab", buffering=0) as log:
                log.write(("deployctl: cannot start: %s\n" % error).encode())
            return None
        loaded = {name: watched(path) for name, path in (self.spec.get("watch") or {}).items()}
        who = identity(child.pid)
        started = None if who["start"] is None else processes.started_at(who["start"])
        self.note("running", pid=child.pid, start=who["start"], started=started, loaded=loaded)
        return child

    def watch(self, child: "subprocess.Popen[bytes]") -> Optional[int]:
        """Until the server is gone with all that it started; its exit status, negative a signal."""
        fd = os.pidfd_open(child.pid)
        try:
            while not self.waker.stopped:
                self.tend_log()
                if self.unwritten:
                    self.write()
                if self.waker.wait(1.0, [fd]):
                    break
            else:
                # The main process alone is asked first: it ends its own children in order.
                signal.pidfd_send_signal(fd, signal.SIGTERM)
                select.select([fd], [], [], self.spec["grace"])
        finally:
            os.close(fd)
        ended = child.poll()
        if ended is not None:
            self.note("ending", rc=ended)
        grace = 0.0 if ended is None else SETTLE
        processes.stop_all(lambda: family(child.pid, self.spec["serial"]), grace)
        rc: Optional[int] = child.wait() if child.poll() is None else child.returncode
        self.tend_log()
        return rc

    def may_restart(self) -> bool:
        """Only what was proven once is restarted, and not more often than the limits say."""
        now = time.monotonic()
        self.failures = [t for t in self.failures if now - t < self.limits["window"]]
        self.failures.append(now)
        proven = os.path.exists(self.file("kept"))
        return proven and len(self.failures) <= self.limits["restarts"]

    def tend_log(self) -> None:
        """Hide secrets in new output, pass it on to a journal, and keep the file below its
        limit."""
        path = self.spec["log"]
        try:
            self.mask.tend()
            with open(path, "r+b") as log:
                if self.spec["kind"] == "systemd":
                    log.seek(self.echoed)
                    self.echoed += echo(log.read(1 << 20))
                if os.fstat(log.fileno()).st_size > self.limits["log"]:
                    # The server holds the file open: copied and emptied, not renamed.
                    shutil.copyfile(path, path + ".1")
                    log.truncate(0)
                    self.echoed = 0
        except OSError as error:
            say("cannot tend %s: %s" % (path, error))


def echo(data: bytes, patience: float = 1.0) -> int:
    """Pass bytes on to our output; how many it took. One that is gone, or stands still for
    `patience` seconds, takes no more."""
    taken = 0
    with suppress(OSError):
        while taken < len(data) and select.select([], [1], [], patience)[1]:
            taken += os.write(1, data[taken : taken + 65536])
    return taken


def say(text: str) -> None:
    """A line of our own on our output."""
    echo(("deployctl: %s\n" % text).encode("utf-8", "surrogateescape"))


def identity(pid: int) -> Dict[str, Any]:
    """A process as pid and start; start None when it is gone already."""
    stat = processes.read_stat(pid)
    return {"pid": pid, "start": None if stat is None else stat.start}


def watched(path: str) -> Optional[str]:
    """The SHA-256 of a file's bytes; None where it cannot be read."""
    try:
        return str(digest(path).hexdigest())
    except OSError:
        return None


def supervise(directory: str) -> int:
    """Entry of the supervising process; a second one for the same directory leaves at once."""
    os.umask(PRIVATE)
    with open(os.path.join(directory, "supervisor.lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("deployctl: another supervisor has this server", file=sys.stderr)
            return 0
        return Supervisor(directory).run()
