"""The agent's part of a start before its turn: begun, handed over, or given up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional

from ..core import inheritance, memory
from ..core.archive import archive
from ..core.atomic_files import boot_id, read_json, write_json, write_text
from ..core.interface import AgentError, Call
from ..core.redaction import forms, hidden
from ..processes import processes
from ..wire.answers import Waiting, Warmed
from . import server, systemd
from .unit_files import Unit, alive
from .waiting import WITHIN

SAME = ("argv", "env", "cwd", "umask", "release", "kind", "run_as")
"""What of a start must be as it was when its server was warmed."""
STARTS_WITHIN = 30.0
TAIL = 4096


class Next:
    """A unit's server that waits, and its directory."""

    def __init__(self, call: Call, unit: Unit) -> None:
        self.call, self.unit = call, unit
        self.directory = call.unit(unit.profile, unit.unit, "next")

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def spec(self) -> Dict[str, Any]:
        return read_json(self.file("spec.json")) or {}

    def record(self, serial: Optional[str]) -> Dict[str, Any]:
        """What its supervisor has noted of this start; empty where it has not."""
        found = read_json(self.file("record.json")) or {}
        return found if serial is not None and found.get("serial") == serial else {}

    def begin(self, spec: Dict[str, Any], secrets: Optional[Dict[str, str]], launcher: str) -> None:
        """Start what waits under a supervisor of its own."""
        self.discard()
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        write_text(self.file("launcher.py"), launcher, 0o600)
        shutil.copyfile(archive(), self.file("supervisor.pyz"))
        os.mkfifo(self.file("word"), 0o600)
        if secrets:
            write_json(self.file("secrets.json"), secrets, 0o600)
        write_json(self.file("spec.json"), dict(spec, boot=boot_id()), 0o600)
        program = self.file("supervisor.pyz")
        argv = [sys.executable, "-I", program, "server", self.unit.directory, self.directory]
        if spec["kind"] == "systemd":
            systemd.start(
                self.call, spec["service"], self.unit.name, argv, spec["grace"], enabled=False
            )
            return
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=inheritance.kept(self.call.environment(), inheritance.SERVER),
            cwd="/",
            start_new_session=True,
        )

    def await_warm(self, serial: str) -> Warmed:
        """Wait until it has imported everything; error `not-warm` where it does not come to
        that."""
        began = time.monotonic()
        while True:
            self.call.step()
            record = self.record(serial)
            if record.get("state") == "waiting":
                return {"pid": record["pid"], "start": record["start"], "told": record["told"]}
            supervisor = record.get("supervisor")
            if record.get("state") in ("failed", "ended"):
                raise AgentError("not-warm", str(record["why"]), self.tail())
            if supervisor and not alive(record, supervisor):
                raise AgentError("not-warm", "its supervisor was killed", self.tail())
            if supervisor is None and time.monotonic() - began > STARTS_WITHIN:
                raise AgentError("not-warm", "its supervisor did not start")
            time.sleep(0.05)

    def tail(self) -> str:
        """The end of its output, without its secrets."""
        try:
            with open(self.file("server.log"), "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - TAIL))
                data = log.read()
        except OSError:
            return ""
        known = read_json(self.file("secrets.json")) or {}
        return hidden(data, forms(known.values())).decode("utf-8", "replace")

    def claim(self, spec: Dict[str, Any], secrets: Optional[Dict[str, str]]) -> str:
        """Why what waits is not for this start; empty where it is."""
        own = self.spec()
        record = self.record(own.get("serial"))
        if record.get("state") != "waiting":
            return str(record.get("why") or "nothing waits")
        if not (alive(record, record) and alive(record, record["supervisor"])):
            return "what waited has ended"
        differs = [name for name in SAME if own.get(name) != spec.get(name)]
        if (read_json(self.file("secrets.json")) or {}) != (secrets or {}):
            differs.append("secrets")
        return "it waits for another start: %s" % ", ".join(differs) if differs else ""

    def serve(self, spec: Dict[str, Any]) -> str:
        """Say the word, the unit's directory being written; why it does not serve, or nothing."""
        serial = str(spec["serial"])
        supervisor = self.record(serial).get("supervisor") or {}
        with suppress(OSError):
            os.replace(self.file("server.log"), spec["log"])
        try:
            handle = os.open(self.file("word"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            return "what waited has ended: %s" % error
        try:
            os.write(handle, serial.encode() + b"\n")
        finally:
            os.close(handle)
        end = time.monotonic() + 3 * WITHIN
        while time.monotonic() < end:
            if self.unit.record(serial).get("state") not in (None, "starting"):
                return ""
            record = self.record(serial)
            if record.get("state") in ("failed", "ended"):
                return str(record["why"])
            if record and not alive(record, supervisor):
                return "its supervisor was killed"
            time.sleep(0.02)
        return "it did not begin to serve"

    def waits(self) -> Optional[Waiting]:
        """The process that waits: pid, start and release; None where none does."""
        try:
            own = self.spec()
            record = self.record(own.get("serial"))
        except (OSError, ValueError):
            return None
        if not record or not alive(record, record):
            return None
        return {"pid": record["pid"], "start": record["start"], "release": own["release"]}

    def discard(self) -> None:
        """End what waits, if anything does."""
        own = self.spec()
        record = self.record(own.get("serial"))
        if own and own.get("kind") == "systemd":
            systemd.stop(self.call, own["service"])
        supervisor = record.get("supervisor") or {}
        if alive(record, supervisor):
            held: Dict[int, int] = {}
            with suppress(ProcessLookupError):
                held[supervisor["pid"]] = os.pidfd_open(supervisor["pid"])
            try:
                if held and processes.is_same(supervisor["pid"], supervisor["start"]):
                    processes.signal_and_wait(held, [*held], signal.SIGTERM, 2 * WITHIN)
            finally:
                for fd in held.values():
                    os.close(fd)
        if own:
            serial = str(own["serial"])
            processes.stop_all(lambda: server.family(_leader(record), serial), 0.0)
        for name in ("spec.json", "secrets.json", "record.json", "word"):
            with suppress(OSError):
                os.unlink(self.file(name))


def _leader(record: Dict[str, Any]) -> Optional[int]:
    return record["pid"] if alive(record, record) else None


def too_little(need: int) -> str:
    """Why this machine's memory is too small for one more process of `need` bytes; or nothing."""
    left = memory.available()
    if left >= need:
        return ""
    return "%d MiB of memory are available, %d are wanted" % (left >> 20, need >> 20)


def service_beside(call: Call, unit: Unit, serving: str) -> str:
    """A service for what waits, other than the one that serves. Two of them take turns, so that
    none's text ever changes: systemd would have to be reloaded for that."""
    plain = systemd.service_name(call.root, unit.profile, unit.unit)
    base, _, _ = plain.rpartition(".service")
    first, second = ("%s::%s.service" % (base, name) for name in ("a", "b"))
    return second if serving == first else first


def warm_command(python: str, launcher: str) -> List[str]:
    """The command line of what waits; the number of a descriptor follows."""
    return [python, launcher, "wait"]
