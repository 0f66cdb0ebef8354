"""What a supervised server keeps on disk, read by the agent; server.py lists the files."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Dict, Iterator, List, Optional

from . import processes, server
from .interface import AgentError, Call
from .records import boot_id, read_json


class Unit:
    """One supervised server's directory and what is recorded there."""

    def __init__(self, call: Call, name: str) -> None:
        if not re.match(r"^[a-z0-9][a-z0-9._-]{0,62}$", name):
            raise AgentError("bad-name", "%r cannot name a unit" % name)
        self.name = name
        self.directory = call.path("@/profiles/%s/server" % name)

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One starts or stops it at a time: a start that was given up may still be on its way."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        with ExitStack() as held:
            # A disk that takes no file any more keeps nobody from stopping a server.
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

    def proven(self) -> Optional[Dict[str, Any]]:
        """The process that was proven last; None where none was, or nobody noted which."""
        try:
            return read_json(self.file("kept"))
        except ValueError:
            return None

    def members(self, spec: Dict[str, Any], record: Dict[str, Any]) -> List[processes.Stat]:
        """Every living process of the server, whoever their parent is by now. Where nothing is
        recorded, or the main process's number was given anew, those that carry its mark."""
        pid, start = record.get("pid"), record.get("start")
        if record and record.get("boot") != boot_id():
            return []
        leader = None if pid is None else processes.read_stat(pid)
        strange = leader is not None and leader.start != start
        return server.family(None if strange else pid, str(spec["serial"]))
