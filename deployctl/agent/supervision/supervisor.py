"""Runs a job's steps apart from the agent that started it, and outlives the connection.

Started as ``python AGENT.pyz supervise DIRECTORY`` in a session and, where systemd can be asked, a
control group of its own. The steps arrive on standard input, so that secrets never lie on disk; one
line on standard output says that the lock is held and the state recorded.
"""

import glob
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from ..core.archive import agent_program
from ..core.atomic_files import boot_id
from ..core.interface import PRIVATE
from ..processes.processes import Stat, session_members, stop_all
from .base import Supervisor, identity
from .job_files import MARK, JobFiles, members
from .watching import lock, say

GRACE = 5.0
AGENT = "@agent"


def supervise(directory: str) -> int:
    """Run the job of this directory to its end; returns 0 once the outcome is on disk."""
    os.umask(PRIVATE)
    spec = json.load(sys.stdin)
    files = JobFiles(directory)
    files.take("lock")
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    supervisor = JobSupervisor(files, spec)
    supervisor.begin()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    supervisor.run()
    return 0


class Ended(Exception):
    """The job ends before its steps do: `outcome` is stalled, stopped or failed."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


class JobSupervisor(Supervisor):
    """One run of one job."""

    def __init__(self, files: JobFiles, spec: Dict[str, Any]) -> None:
        super().__init__(
            files.log,
            f"{MARK}={spec['token']}",
            {
                "token": spec["token"],
                **identity(os.getpid()),
                "session": os.getsid(0),
                "scope": spec["scope"],
                "unscoped": spec["unscoped"],
                "boot_id": boot_id(),
                "started": time.time(),
                "phase": "",
                "steps": [],
            },
        )
        self._files = files
        self._steps: List[Dict[str, Any]] = spec["steps"]
        self._stall: float = spec["stall"]
        self._limit: Optional[float] = spec["limit"]
        self._umask: int = spec["umask"]
        self.hide(value for step in self._steps for value in (step.get("secrets") or {}).values())
        self._began = time.monotonic()
        self._moved = self._sampled = self._looked = self._began
        self._seen: Tuple[int, Dict[int, int]] = (-1, {})
        self.tick = max(0.05, min(1.0, self._stall / 8))

    def begin(self) -> None:
        """Record that it runs."""
        self._files.reserve()
        self._beat()
        self.write()

    def run(self) -> None:
        """Every step in order; the first that fails and is not optional ends the job."""
        outcome, why = "done", ""
        status: Optional[int] = 0
        try:
            for step in self._steps:
                status = self._run_step(step)
                if status != 0 and not step.get("optional"):
                    outcome, why = "failed", f"{step['phase']} ended with status {status}"
                    break
                status = 0
        except Ended as ended:
            outcome, why, status = ended.outcome, str(ended), None
        except OSError as error:
            outcome, why, status = "failed", str(error), None
        left = self._end_members()
        self.tend()
        self.record.update(
            outcome=outcome, why=why, rc=status, ended=time.time(), left=left, child=None
        )
        self._files.free_reserve()
        self.write()

    def _run_step(self, step: Dict[str, Any]) -> int:
        if not self._wanted(step.get("when")):
            return 0
        lock = self._take(step["lock"]) if step["lock"] else None
        began = time.monotonic()
        self.record.update(phase=step["phase"])
        argv = self._argv(step["argv"])
        say(f"$ {' '.join(argv)}")
        child = self.spawn(
            argv, step["env"], step.get("secrets"), cwd=step["cwd"], umask=self._umask
        )
        self.save(child=child.pid)
        if not self.follow(child):
            raise Ended("stopped", "stopped on request")
        child.wait()
        seconds = round(time.monotonic() - began, 3)
        self.record["steps"].append(
            {"phase": step["phase"], "rc": child.returncode, "seconds": seconds}
        )
        if lock is not None:
            if child.returncode != 0:
                # What a killed command left behind may still work on what the lock guards.
                self._end_members()
            os.close(lock)
        return child.returncode

    def _take(self, path: str) -> int:
        """Hold a lock that other jobs want as well, in the phase `waiting` until it is free. A job
        that ends early keeps it to its very end; no child inherits it, so none outlives that."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        waits = False
        while (handle := lock(path)) is None:
            if not waits:
                waits = True
                say(f"waiting for {path}, which another job holds")
                self.save(phase="waiting", child=None)
            self.waker.wait(self.tick, [])
            if self.waker.stopped:
                raise Ended("stopped", "stopped on request")
            self._beat()
            self._keep_limit()
        self._moved = self._looked = time.monotonic()
        return handle

    def _wanted(self, when: Optional[Dict[str, Any]]) -> bool:
        return when is None or bool(glob.glob(when["glob"])) == when["present"]

    def _argv(self, argv: List[Any]) -> List[str]:
        """An argument `{"glob": …}` stands for the one file that matches when the step begins."""
        ready: List[str] = []
        for argument in argv:
            if argument == AGENT and not ready:
                ready += agent_program()
            elif isinstance(argument, dict):
                found = sorted(glob.glob(argument["glob"]))
                if len(found) != 1:
                    raise Ended("failed", f"{len(found)} files match {argument['glob']}, not one")
                ready += found
            else:
                ready.append(argument)
        return ready

    def _beat(self) -> None:
        with suppress(OSError):  # a disk that is full for a moment ends no job
            with open(self._files.heartbeat, "w", encoding="ascii") as file:
                file.write(f"{time.time():.3f}\n")

    def _keep_limit(self) -> None:
        if self._limit is not None and time.monotonic() - self._began > self._limit:
            raise Ended("stalled", f"longer than its limit of {self._limit:g} s")

    def write(self) -> None:
        self._files.record(self.record)

    def look(self) -> bool:
        self._beat()
        self.tend()
        self._keep_limit()
        now = time.monotonic()
        # While this machine stood still, nothing could move.
        self._moved += max(0.0, now - self._looked - self.tick)
        self._looked = now
        # Reading every process is dear on a big host: seldom, where the stall is long.
        if now - self._sampled >= min(15.0, self._stall / 8):
            self._sampled = now
            self._keep_moving(now)
        return False

    def _keep_moving(self, now: float) -> None:
        cpu = {s.pid: s.cpu for s in session_members(self.record["session"])}
        cpu.pop(os.getpid(), None)
        seen = (os.path.getsize(self._files.log), cpu)
        if seen != self._seen:
            self._seen, self._moved = seen, now
        elif now - self._moved > self._stall:
            raise Ended("stalled", f"neither output nor CPU time for {self._stall:g} s")

    def _end_members(self) -> List[int]:
        """End what the steps left behind (a compiler whose parent was killed lives on)."""
        return stop_all(self._others, GRACE).left

    def _others(self) -> List[Stat]:
        return [stat for stat in members(self.record) if stat.pid != os.getpid()]
