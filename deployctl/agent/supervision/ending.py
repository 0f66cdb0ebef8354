"""The end of a unit's server: asked first, and waited for while it has requests to end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any, Dict, Sequence

from ..core.atomic_files import read_json, write_json
from ..core.interface import Call
from ..core.redaction import LogMask
from ..processes import processes
from ..wire.answers import UnitStopped
from . import by_hand, systemd, warming
from .load import Watch
from .unit_files import ENDED, Unit, alive
from .unit_state import unit_state
from .watching import remove_folder

LOAD_OPTION, DRAIN_OPTION = "--enable-server-load-tracking", "--shutdown-timeout"
"""Options of `vllm serve` with which it counts requests, and lets them end when it is stopped."""


def stop(
    call: Call,
    profile: str,
    unit: str,
    grace: float = 20.0,
    load: str = "",
    spare: bool = False,
) -> UnitStopped:
    """End the server, its engine cores and its workers; returns who went how.

    What waits to serve next ends as well, unless that is to be spared.

    `load` is the URL at which it counts its requests: `requests` then says how many were in flight
    and how many were cut off; None where it does not count them. `left` lists processes that
    survived even SIGKILL (stuck in a driver): a reboot is needed. A server that lets its requests
    end is killed once it has counted none three times in a row.
    """
    files = Unit(call, profile, unit)
    if not os.path.isdir(files.directory):
        return _absent()
    with files.alone():
        spec = files.spec() or {}
        if not spare:
            warming.Next(call, files).discard()
        tracks = LOAD_OPTION in spec.get("argv", ())
        drain = _drain(spec.get("argv", ()))
        ends = (lambda: _asked(files), lambda: _end_idle(files))
        with Watch(call, load if tracks else "", drain, *ends) as watch:
            stopped = _stop(call, files, grace)
    stopped["requests"] = watch.told()
    return stopped


def _asked(unit: Unit) -> bool:
    """Whether its supervisor has asked the server to end."""
    with suppress(OSError, ValueError):
        return bool(unit.record((unit.spec() or {}).get("serial")).get("asked"))
    return False


def _end_idle(unit: Unit) -> None:
    """End a server that has let its requests end: what vLLM still does then can take its whole
    grace (measured 5 s on an idle machine, 15 on a busy one), and keeps nothing. Its resource
    tracker, which removes its shared memory, is left to end by itself."""
    spec = unit.spec() or {}
    found = unit.members(spec, unit.record(spec.get("serial")))
    trackers = "multiprocessing.resource_tracker"
    processes.stop([m for m in found if trackers not in " ".join(processes.command(m.pid))], 0.0)


def _drain(argv: Sequence[str]) -> float:
    """For how many seconds a server with this command line lets its requests end."""
    for option, value in zip(argv, argv[1:]):
        if option == DRAIN_OPTION:
            with suppress(ValueError):
                return max(0.0, float(value))
    return 0.0


def _absent() -> UnitStopped:
    return {
        "was": "absent",
        "gone": [],
        "killed": [],
        "left": [],
        "state": "absent",
        "requests": {"in_flight": None, "cut_off": None},
    }


def _stop(call: Call, unit: Unit, grace: float) -> UnitStopped:
    spec = unit.spec()
    if spec is None:
        return _absent()
    before = unit_state(unit)
    record = unit.record(spec["serial"])
    if spec["kind"] == "systemd":
        systemd.stop(call, service_of(call, unit, spec))
    if spec["kind"] == by_hand.KIND and before["state"] == "running":
        by_hand.end(record["pid"], unit.members(spec, record), float(spec["grace"]))
    end_supervisor(record, float(spec["grace"]))
    # It may have restarted the server in the meantime.
    record = unit.record(spec["serial"]) or record
    # Whatever the supervisor left, or all of it where no supervisor lived.
    rest = processes.stop_all(lambda: unit.members(spec, record), grace)
    left = unit.members(spec, record)
    if not left:
        remove_folder(spec.get("scratch"))
        with suppress(OSError):  # on a disk that takes no writing it is stopped all the same
            forget_secrets(unit, spec["log"])
    if not left and record.get("state") not in ENDED:
        record = dict(record, state="stopped", ended=time.time())
        with suppress(OSError):  # on a full disk it is stopped all the same
            write_json(unit.file("record.json"), dict(record, serial=spec["serial"]))
    survivors = {stat.pid for stat in left}
    return {
        "was": before["state"],
        "gone": [m["pid"] for m in before["members"] if m["pid"] not in survivors],
        "killed": rest.killed,
        "left": [processes.describe_process(m) for m in left],
        "state": unit_state(unit)["state"],
        "requests": {"in_flight": None, "cut_off": None},
    }


def end_supervisor(record: Dict[str, Any], grace: float) -> None:
    who = record.get("supervisor") or {}
    if not alive(record, who):
        return
    try:
        fd = os.pidfd_open(who["pid"])
    except ProcessLookupError:
        return
    try:
        if processes.is_same(who["pid"], who["start"]):
            processes.signal_and_wait({who["pid"]: fd}, [who["pid"]], signal.SIGTERM, grace + 30.0)
    finally:
        os.close(fd)


def forget_secrets(unit: Unit, log: str) -> None:
    """No process needs them now; what a killed supervisor left in the log goes, too."""
    path = unit.file("secrets.json")
    with suppress(OSError):
        LogMask(log, (read_json(path) or {}).values()).tend()
    with suppress(FileNotFoundError):
        os.unlink(path)


def service_of(call: Call, unit: Unit, spec: Dict[str, Any]) -> str:
    """The systemd service of a start; an older one's had the name that people call the unit."""
    return str(spec.get("service") or systemd.older_name(call.root, unit.name))
