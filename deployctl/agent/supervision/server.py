"""Supervises one server, apart from the agent that started it.

Directory of a server (`@/profiles/PROFILE/units/UNIT/server`)::

    spec.json      argv, env, cwd, log, release, limits, watched files
    secrets.json   secret variables, mode 0600
    asleep.json    the process that sleeps, see sleeping.py
    kept           present once the start was proven: from then on failures are restarted;
                   holds the process that was proven
    record.json    what the supervisor did: state, pid, start, rc, restarts, loaded, liveness
    lock           held while it is being started or stopped
    supervisor.pyz a copy of the agent, so that a newer one never pulls it away
    server.log     the server's output, server.log.1 what was before
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Dict, Iterator, List, Optional

from ..core.atomic_files import read_json, write_json
from ..core.interface import PRIVATE, USUAL_UMASK
from ..core.regular_files import digest
from ..processes import processes
from . import watching
from .base import Supervisor, begun, identity
from .bond import Bond
from .liveness import Watch
from .watching import echo, lock, say

MARK = "DEPLOYCTL_SERVER"
"""The variable by which a server's processes are known, whatever session they made."""
KEY = "VLLM_API_KEY"
"""The variable in which a server finds the key that requests must carry."""
SCRATCH = "DEPLOYCTL_SCRATCH"
"""The variable in which a server finds the folder of its own that it asked for."""
SETTLE = 5.0
"""Seconds that the rest of a server's session gets to end after its main process has."""


def family(pid: Optional[int], serial: str) -> List[processes.Stat]:
    """Every living process of a server: of the session of its main process `pid` (None: that is
    not known), or started with its mark in a session of its own. A process may have overwritten
    its environment with its title; most have not."""
    return processes.members("%s=%s" % (MARK, serial), pid)


class ServerSupervisor(Supervisor):
    """Keeps the server of one directory running until it is asked to stop or gives up."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.spec = read_json(self.file("spec.json")) or {}
        serial = self.spec["serial"]
        record = {**begun(serial, "starting"), "restarts": 0}
        super().__init__(self.spec["log"], "%s=%s" % (MARK, serial), record)
        self.limits: Dict[str, Any] = self.spec["limits"]
        self.failures: List[float] = []
        self.life: Optional[Watch] = None
        self.bond: Optional[Bond] = None
        self.lost: Optional[str] = None
        """Which other rank has ended, where this one ends with it."""
        self.hung = 0
        """Restarts of a server that answered no more."""
        self.key: Optional[str] = None
        # One of an earlier version may be open to all.
        with suppress(OSError):
            os.chmod(self.spec["log"], 0o600)
        self.echoed = 0
        if self.spec["kind"] == "systemd":
            # A journal that stands still must not hold up the supervisor.
            os.set_blocking(1, False)

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def write(self) -> None:
        write_json(self.file("record.json"), self.record)

    def note(self, state: str, **more: Any) -> None:
        """Record a state for others to read, and say it where a journal listens."""
        self.save(state=state, at=time.time(), **more)
        shown = {key: value for key, value in more.items() if value is not None}
        say("deployctl: %s %s" % (state, json.dumps(shown)))

    def secrets(self) -> Dict[str, str]:
        """Its secret variables, hidden in the log from now on."""
        found = read_json(self.file("secrets.json")) or {}
        self.hide(found.values())
        self.key = found.get(KEY)
        return found

    def run(
        self,
        given: "Optional[subprocess.Popen[bytes]]" = None,
        told: Optional[Dict[str, Any]] = None,
    ) -> int:
        """Start, watch, restart; 0 when it was stopped, 1 when it gave up. A `given` first process
        was started beforehand, and has `told` of itself."""
        if given is not None:
            self.secrets()
            self.began(given, told)
        while True:
            self.lost = None
            with self.bonded():
                self.await_others()
                if self.waker.stopped:
                    self.note("stopped")
                    return 0
                child, given = given or self.start(), None
                rc = None if child is None else self.watch(child)
            if self.waker.stopped:
                self.note("stopped", rc=rc, ended=time.time())
                return 0
            if not self.may_restart():
                ending = "exited" if rc == 0 else "failed"
                self.note(ending, rc=rc, ended=time.time(), lost=self.lost)
                return 1
            self.record["restarts"] += 1
            self.note("starting", rc=rc, ended=time.time(), lost=self.lost)
            self.waker.wait(min(2.0 ** len(self.failures), 30.0), [])
            if self.waker.stopped:
                self.note("stopped", rc=rc)
                return 0

    @contextmanager
    def bonded(self) -> Iterator[None]:
        """What ends this rank of a group when another one ends; nothing for a server of its own."""
        spec = self.spec.get("bond")
        with Bond(spec) if spec else nullcontext() as self.bond:
            yield

    def await_others(self) -> None:
        """Before a group's rank is started again: all the others must have ended too."""
        if self.bond is None or not self.record["restarts"]:
            return
        self.tell("this rank waits for the others of its group")
        while not self.waker.stopped and not self.bond.whole.is_set():
            self.waker.wait(0.5, [])

    def start(self) -> "Optional[subprocess.Popen[bytes]]":
        secrets = self.secrets()
        try:
            env = dict(self.spec["env"])
            if self.spec.get("scratch"):
                watching.empty_folder(self.spec["scratch"])
                env[SCRATCH] = self.spec["scratch"]
            with open(self.spec["log"], "ab") as log:
                child = self.spawn(
                    self.spec["argv"],
                    env,
                    secrets,
                    cwd=self.spec["cwd"],
                    umask=self.spec.get("umask", USUAL_UMASK),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    **watching.user(self.spec.get("run_as")),
                )
        except OSError as error:
            self.record["error"] = str(error)
            self.tell("cannot start: %s" % error)
            return None
        self.began(child)
        return child

    def began(
        self, child: "subprocess.Popen[bytes]", warm: Optional[Dict[str, Any]] = None
    ) -> None:
        """Note the process that serves from now on."""
        loaded = {name: watched(path) for name, path in (self.spec.get("watch") or {}).items()}
        who = identity(child.pid)
        started = None if who["start"] is None else processes.started_at(who["start"])
        self.note(
            "running",
            pid=child.pid,
            start=who["start"],
            started=started,
            loaded=loaded,
            warm=warm,
            asked=False,
        )

    def watch(self, child: "subprocess.Popen[bytes]") -> Optional[int]:
        """Until the server is gone with all that it started; its exit status, negative a signal."""
        with ExitStack() as held:
            self.life = None
            if self.spec.get("liveness"):
                proven = partial(self.proven, identity(child.pid))
                watch = Watch(self.spec["liveness"], self.key, proven, self.hung)
                self.life = held.enter_context(watch)
            self.follow(child)
        if self.waker.stopped:
            # The main process alone is asked first: it ends its own children in order.
            child.send_signal(signal.SIGTERM)
            self.save(asked=True)
            with suppress(subprocess.TimeoutExpired):
                child.wait(self.spec["grace"])
        elif self.life is not None and self.life.hung:
            self.give_up(self.life)
            child.kill()
        ended, hung = child.poll(), self.life is not None and self.life.hung
        if ended is not None:
            self.note("ending", rc=ended)
        grace = 0.0 if ended is None or hung else SETTLE
        processes.stop_all(lambda: family(child.pid, self.spec["serial"]), grace)
        watching.remove_folder(self.spec.get("scratch"))
        rc: Optional[int] = child.wait() if child.poll() is None else child.returncode
        self.tend_log()
        return rc

    def look(self) -> bool:
        self.tend_log()
        if self.life is not None and self.record.get("liveness") != self.life.state:
            self.save(liveness=self.life.state)
        if self.bond is not None and self.bond.lost:
            self.lost = self.bond.lost
            self.tell("%s: this rank ends with it" % self.bond.lost)
            return True
        return self.life is not None and self.life.hung

    def give_up(self, watch: Watch) -> None:
        """Note that the server hangs; what follows ends it."""
        self.hung += 1
        self.record["liveness"] = {**watch.state, "restarts": self.hung}
        last = watch.state["last"]
        why = last["why"] if last else ""
        self.tell("it hangs and is killed: %s, %d times" % (why, watch.state["failures"]))

    def proven(self, who: Dict[str, Any]) -> Optional[bool]:
        """Whether this process was proven; None where no process of this start was."""
        try:
            kept = read_json(self.file("kept"))
        except (OSError, ValueError):
            return False
        return None if kept is None else kept.get("pid") == who["pid"]

    def tell(self, text: str) -> None:
        """A line of ours in the server's log."""
        with suppress(OSError), open(self.spec["log"], "ab", buffering=0) as log:
            log.write(("deployctl: %s\n" % text).encode("utf-8", "surrogateescape"))

    def may_restart(self) -> bool:
        """Only what was proven once is restarted, and not more often than the limits say; nor what
        slept: the memory of its GPUs is its successor's."""
        mark = read_json(self.file("asleep.json")) or {}
        if mark and all(mark.get(name) == self.record.get(name) for name in ("pid", "start")):
            self.tell("it ended in its sleep and is not restarted")
            return False
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
            say("deployctl: cannot tend %s: %s" % (path, error))


def watched(path: str) -> Optional[str]:
    """The SHA-256 of a file's bytes; None where it cannot be read."""
    try:
        return str(digest(path).hexdigest())
    except OSError:
        return None


def supervise(directory: str) -> int:
    """Entry of the supervising process; a second one for the same directory leaves at once."""
    os.umask(PRIVATE)
    # Held until this process ends.
    if lock(os.path.join(directory, "supervisor.lock")) is None:
        print("deployctl: another supervisor has this server", file=sys.stderr)
        return 0
    return ServerSupervisor(directory).run()
