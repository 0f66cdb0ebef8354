"""What a job keeps on disk, read by the agent and written by its supervisor.

::

    job.json     what runs: token, label, steps (names of secrets, never their values), limits
    state.json   who runs it: pid, start, session, scope, boot id; phase; in the end outcome, status
    log          everything the steps print, in order
    lock         held by the supervisor for as long as it lives: the proof of life
    start.lock   held while a job is being started
    heartbeat    touched while the supervisor works
    reserve      room for the outcome, should the disk become full meanwhile
"""

import fcntl
import os
import re
from typing import Any, Dict, List, Optional

from ..core.atomic_files import boot_id, read_json, write_json
from ..core.interface import AgentError
from ..processes import processes
from ..processes.processes import Stat
from . import watching

MARK = "DEPLOYCTL_JOB"
RESERVE = 64 << 10
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


class JobFiles:
    """The directory of one job."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.id = os.path.basename(directory)
        self.log = os.path.join(directory, "log")
        self.lock = os.path.join(directory, "lock")
        self.heartbeat = os.path.join(directory, "heartbeat")
        self._reserve = os.path.join(directory, "reserve")
        self._job = os.path.join(directory, "job.json")
        self._state = os.path.join(directory, "state.json")

    @classmethod
    def of(cls, jobs: str, id: str) -> "JobFiles":
        """The job `id` below the directory of all jobs; error `bad-id` for an id with a path."""
        if not _ID.fullmatch(id):
            raise AgentError("bad-id", f"not a job's name: {id!r}")
        return cls(os.path.join(jobs, id))

    def take(self, name: str) -> int:
        """Hold one of the locks until the descriptor is closed; waits for it."""
        handle = os.open(os.path.join(self.directory, name), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return handle

    def alive(self) -> bool:
        """Whether a supervisor holds the lock; the kernel drops it however the holder ends."""
        try:
            handle = os.open(self.lock, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(handle)

    def describe(self, job: Dict[str, Any]) -> None:
        """Record what is about to run."""
        write_json(self._job, job)

    def description(self) -> Optional[Dict[str, Any]]:
        return read_json(self._job)

    def record(self, state: Dict[str, Any]) -> None:
        """Record how far it is; the supervisor's own."""
        write_json(self._state, state)

    def reserve(self) -> None:
        """Keep room on the disk for the outcome."""
        with open(self._reserve, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE)

    def free_reserve(self) -> None:
        """Give the room back: the outcome is to be written now."""
        if os.path.exists(self._reserve):
            os.unlink(self._reserve)

    def recorded(self) -> Optional[Dict[str, Any]]:
        return read_json(self._state)

    def forget(self) -> None:
        """Make room for a new run; the last run's log stays beside as `log.1`."""
        for path in (self._state, self._job):
            if os.path.exists(path):
                os.unlink(path)
        watching.set_aside(self.log)


def members(state: Dict[str, Any]) -> List[Stat]:
    """Living processes of a job, its supervisor included: by its scope, by its session and by the
    mark in their environment, so that a child with a session of its own is found too. A session
    number that was given to strangers meanwhile does not count: no member of theirs carries the
    mark, and whoever has the supervisor's number started at another time."""
    if state.get("boot_id") != boot_id():
        return []
    mark, scope = f"{MARK}={state['token']}", state.get("scope")
    found = {stat.pid: stat for stat in processes.members(mark, scope=scope)}
    session = processes.session_members(state["session"])
    supervisor = (state["pid"], state["start"])
    if any(stat.pid in found or (stat.pid, stat.start) == supervisor for stat in session):
        found.update((stat.pid, stat) for stat in session)
    return list(found.values())
