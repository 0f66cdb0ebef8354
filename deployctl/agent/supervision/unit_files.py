"""What a supervised server keeps on disk, read by the agent; server.py lists the files."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..core import layout
from ..core.atomic_files import boot_id, read_json
from ..core.interface import Call
from ..processes import processes
from ..wire.answers import Asleep
from . import by_hand, server

ENDED = ("stopped", "exited", "failed")
"""States that are a supervisor's last word."""
LAST_WORD = 5.0
"""Seconds that a supervisor gets to tell how its server has ended."""


def alive(record: Dict[str, Any], who: Dict[str, Any]) -> bool:
    """Whether a process of a record, the server or its supervisor, still lives."""
    pid, start = who.get("pid"), who.get("start")
    if pid is None or start is None or record.get("boot") != boot_id():
        return False
    return processes.is_same(pid, start)


class Unit:
    """One supervised server's directory and what is recorded there."""

    def __init__(self, call: Call, profile: str, unit: str) -> None:
        self.profile, self.unit = profile, unit
        self.directory = call.unit(profile, unit, "server")

    @property
    def name(self) -> str:
        """What people call it: the profile's own unit has its name."""
        return self.profile if self.unit == layout.MAIN else "%s.%s" % (self.profile, self.unit)

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One starts or stops it at a time: a start that was given up may still be on its way."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        with ExitStack() as held:
            # A disk that takes no more files must not prevent stopping a server.
            with suppress(OSError):
                handle = os.open(self.file("lock"), os.O_RDONLY | os.O_CREAT, 0o600)
                held.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def spec(self) -> Optional[Dict[str, Any]]:
        return read_json(self.file("spec.json"))

    def record(self, serial: Optional[str]) -> Dict[str, Any]:
        """What the supervisor of this start wrote; empty when it has not."""
        found = read_json(self.file("record.json")) or {}
        return found if found.get("serial") == serial else {}

    def standing(self, serial: Optional[str]) -> Tuple[Dict[str, Any], bool, bool]:
        """The record, whether the server runs, and whether somebody supervises it. A server that
        has just ended is recorded a moment later, and a supervisor that is gone may have recorded
        so after its record was read: it is read again.
        """
        end = time.monotonic() + LAST_WORD
        before: Optional[Dict[str, Any]] = None
        while True:
            record = self.record(serial)
            running = alive(record, record)
            supervised = alive(record, record.get("supervisor") or {})
            if running or record.get("state") in ENDED:
                break
            if supervised and (record.get("state") != "running" or time.monotonic() > end):
                break
            if not supervised and record == before:
                break
            before = record
            time.sleep(0.02)
        return record, running, supervised

    def proven(self) -> Optional[Dict[str, Any]]:
        """The process that was proven last; None where none was, or it was not recorded."""
        try:
            return read_json(self.file("kept"))
        except ValueError:
            return None

    def asleep(self, who: Dict[str, Any]) -> Optional[Asleep]:
        """Since when this process (pid, start) of the server sleeps; None where it does not."""
        try:
            mark = read_json(self.file("asleep.json")) or {}
        except (OSError, ValueError):
            return None
        if not mark or any(mark.get(name) != who.get(name) for name in ("pid", "start")):
            return None
        return {"since": mark["since"], "level": mark["level"]}

    def members(self, spec: Dict[str, Any], record: Dict[str, Any]) -> List[processes.Stat]:
        """Every living process of the server, whoever their parent is by now. Where nothing is
        recorded, or the main process's number was reused, those that carry its mark."""
        pid, start = record.get("pid"), record.get("start")
        if record and record.get("boot") != boot_id():
            return []
        leader = None if pid is None else processes.read_stat(pid)
        strange = leader is not None and leader.start != start
        if spec.get("kind") == by_hand.KIND:
            return [] if strange or pid is None else by_hand.tree(pid)
        return server.family(None if strange else pid, str(spec["serial"]))
