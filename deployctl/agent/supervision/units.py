"""Servers under supervision: started, looked at, stopped whole, their logs read.

States: absent (never started here) · starting · running · exited (status 0 before anybody asked,
which is a failure) · failed · lost (it and its supervisor died) · stopped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ..core import inheritance, layout
from ..core.archive import archive
from ..core.atomic_files import read_json, write_json
from ..core.interface import AgentError, Call
from ..core.redaction import forms, hidden
from ..core.regular_files import read_piece
from ..wire.adoption import RunAs
from ..wire.answers import LogPart, UnitState, Warmed
from ..wire.bonds import BondSpec
from ..wire.liveness import Liveness
from . import sleeping, systemd, warming, watching
from .ending import end_supervisor, forget_secrets, service_of
from .ending import stop as stop
from .unit_files import ENDED, Unit, alive
from .unit_state import unit_state

LIMITS = {"restarts": 5, "window": 900.0, "log": 64 << 20}
"""Restarts within this many seconds; bytes of log before it is rotated."""


def state(call: Call, profile: str, unit: str) -> UnitState:
    """What has become of the server: state, process, release, and every process it consists of.

    `cpu` is the seconds of processor time of all members together, `io` the bytes that they have
    read from and written to disks (None where that is not known); `supervised` says whether
    somebody would notice if it ended. `proven` is the process (pid, start) last proven ready,
    `loaded` the SHA-256 of each watched file when this one began, `rc` and `ended` the last exit,
    `liveness` what was seen of its life (None: it is not watched), `lost` which other rank of its
    group ended last, and this one with it, `asleep` since when it sleeps.
    """
    files = Unit(call, profile, unit)
    return {**unit_state(files), "waits": warming.Next(call, files).waits()}


def listing(call: Call, profile: str) -> Dict[str, UnitState]:
    """The state of every unit that a profile has here, by name."""
    call.profile(profile)
    return {unit: state(call, profile, unit) for unit in layout.units(call.root, profile)}


def start(
    call: Call,
    profile: str,
    unit: str,
    argv: List[str],
    release: str,
    env: Optional[Dict[str, str]] = None,
    secrets: Optional[Dict[str, str]] = None,
    cwd: str = "@",
    log: str = "",
    grace: float = 20.0,
    supervisor: str = "auto",
    limits: Optional[Dict[str, float]] = None,
    watch: Optional[List[str]] = None,
    run_as: Optional[RunAs] = None,
    liveness: Optional[Liveness] = None,
    bond: Optional[BondSpec] = None,
    scratch: bool = False,
    guard: str = "",
) -> UnitState:
    """Start a server under supervision and return its state once its process exists.

    The bytes of the files in `watch` are noted at every start, restarts too. It is restarted
    after failures only from `keep` on, and watched for life (None: not at all). `run_as` is another
    user, where the agent may choose one. Where a process waits for this very start, it serves;
    else `plain` says why none does. `scratch` gives it a folder of its own, which DEPLOYCTL_SCRATCH
    names and which ends with it; with the text of a `guard` it has control endpoints, for
    `sleeping`. Errors: `running` where one runs already, `not-started` where
    no process came to be, `cancelled` where it was given up before.
    """
    files = Unit(call, profile, unit)
    if guard:
        env, secrets = sleeping.controlled(files, guard, env, secrets)
    spec = {
        "serial": "%d-%d" % (time.time_ns(), os.getpid()),
        "kind": _kind(supervisor),
        "service": systemd.service_name(call.root, profile, unit),
        "argv": argv,
        # An adopted server gets what it was started with, and nothing of ours.
        "env": _environment(call, env) if run_as is None else dict(env or {}),
        "cwd": call.path(cwd),
        "umask": call.umask if run_as is None else run_as["umask"],
        "run_as": run_as,
        "log": call.path(log) if log else files.file("server.log"),
        "release": release,
        "grace": grace,
        "watch": {name: call.path(name) for name in watch or ()},
        "limits": dict(LIMITS, **(limits or {})),
        "liveness": liveness,
        "bond": bond,
        "scratch": watching.folder_name() if scratch else None,
    }
    with files.alone():
        now, before = unit_state(files), files.spec() or {}
        if now["state"] in ENDED and now["supervised"]:
            # The last one's supervisor is on its way out; until then it keeps the next one out.
            end_supervisor(files.record(before.get("serial")), grace)
            now = unit_state(files)
        if now["state"] in ("running", "starting") or now["members"]:
            said = "unit %s runs already, pid %s" % (files.name, now["pid"])
            raise AgentError("running", said, now)
        watching.remove_folder(before.get("scratch"))
        if call.cancelled.is_set():
            raise AgentError("cancelled", "the start of unit %s was given up" % files.name)
        taken, plain = _start_warm(call, files, spec, secrets, before)
        if plain:
            _write(files, spec, secrets)
            _supervise(call, files, spec, service_of(call, files, before))
        return {**_await_start(files, str(taken["serial"])), "plain": plain or None}


def warm(
    call: Call,
    profile: str,
    unit: str,
    argv: List[str],
    release: str,
    launcher: str,
    python: str,
    env: Optional[Dict[str, str]] = None,
    secrets: Optional[Dict[str, str]] = None,
    grace: float = 20.0,
    supervisor: str = "auto",
    need: int = 0,
    patience: float = 180.0,
    limit: float = 600.0,
    guard: str = "",
) -> Warmed:
    """Have the server of a coming `start` with these arguments import everything, beside what
    serves, and wait.

    `launcher` is the text of the program that waits, run by `python`; `patience` bounds its
    imports, `limit` its wait, both in seconds. Errors: `little-memory` where less than `need` bytes
    are available, `not-warm` with the end of its output.
    """
    files = Unit(call, profile, unit)
    little = warming.too_little(need)
    if little:
        raise AgentError("little-memory", little)
    if guard:
        env, secrets = sleeping.controlled(files, guard, env, secrets)
    coming = warming.Next(call, files)
    serving = str((files.spec() or {}).get("service"))
    spec = {
        "serial": "%d-%d" % (time.time_ns(), os.getpid()),
        "kind": _kind(supervisor),
        "service": warming.service_beside(call, files, serving),
        "argv": argv,
        "env": _environment(call, env),
        "cwd": call.path("@"),
        "umask": call.umask,
        "release": release,
        "grace": grace,
        "warm": warming.warm_command(call.path(python), coming.file("launcher.py")),
        "patience": patience,
        "limit": limit,
    }
    with files.alone():
        coming.begin(spec, secrets, launcher)
    try:
        return coming.await_warm(str(spec["serial"]))
    except AgentError:
        coming.discard()
        raise


def _start_warm(
    call: Call,
    files: Unit,
    spec: Dict[str, Any],
    secrets: Optional[Dict[str, str]],
    before: Dict[str, Any],
) -> Tuple[Dict[str, Any], str]:
    """Let the process serve that waits for this start, if one does: the start as it is now, and
    why it is a plain one, or nothing."""
    coming = warming.Next(call, files)
    why = coming.claim(spec, secrets)
    if not why:
        own = coming.spec()
        taken = dict(spec, serial=own["serial"], service=own["service"])
        _write(files, taken, secrets)
        why = coming.serve(taken)
        if not why:
            if spec["kind"] == "systemd":
                for service in {service_of(call, files, before), spec["service"]}:
                    systemd.disable(service)
                systemd.enable(str(taken["service"]))
            return taken, ""
    coming.discard()
    return spec, why


def _write(unit: Unit, spec: Dict[str, Any], secrets: Optional[Dict[str, str]]) -> None:
    forget_secrets(unit, spec["log"])
    watching.set_aside(spec["log"])
    for stale in ("kept", "secrets.json", "asleep.json"):
        if os.path.exists(unit.file(stale)):
            os.unlink(unit.file(stale))
    if secrets:
        write_json(unit.file("secrets.json"), secrets, 0o600)
    write_json(unit.file("spec.json"), spec, 0o600)


def _environment(call: Call, wanted: Optional[Dict[str, str]]) -> Dict[str, str]:
    """The same for whoever launches: a person's own variables neither change nor leak into it."""
    inherited = call.environment()
    env = inheritance.kept(inherited, inheritance.SERVER)
    env.update(wanted or {})
    return env


def _kind(supervisor: str) -> str:
    obstacle = systemd.usable()
    if supervisor == "systemd" and obstacle is not None:
        raise AgentError("no-systemd", "supervision by systemd is asked for: %s" % obstacle)
    return "systemd" if supervisor != "agent" and obstacle is None else "agent"


def _supervise(call: Call, unit: Unit, spec: Dict[str, Any], before: str) -> None:
    program = unit.file("supervisor.pyz")
    shutil.copyfile(archive(), program)
    argv = [sys.executable, "-I", program, "server", unit.directory]
    if systemd.usable() is None:
        for service in {before, spec["service"]}:
            systemd.disable(service)
    if spec["kind"] == "systemd":
        systemd.start(call, spec["service"], unit.name, argv, spec["grace"])
        return
    subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The server may read its supervisor's environment.
        env=inheritance.kept(call.environment(), inheritance.SERVER),
        cwd="/",
        start_new_session=True,
    )


def _await_start(unit: Unit, serial: str, patience: float = 30.0) -> UnitState:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if unit.record(serial).get("state") not in (None, "starting"):
            return unit_state(unit)
        # Not given up half way: whoever stops it then must find what there is to stop.
        time.sleep(0.02)
    raise AgentError("not-started", "no process of unit %s after %g s" % (unit.name, patience))


def keep(
    call: Call,
    profile: str,
    unit: str,
    pid: Optional[int] = None,
    start: Optional[int] = None,
) -> UnitState:
    """This process was proven (None: it was not asked): restart after failures from now on."""
    files = Unit(call, profile, unit)
    write_json(files.file("kept"), {"pid": pid, "start": start})
    return unit_state(files)


def log(call: Call, profile: str, unit: str, offset: int = 0, limit: int = 65536) -> LogPart:
    """A part of the server's log from a byte offset, up to whole lines while it runs.

    A negative offset counts from the end. `offset` in the answer is where to go on; `turned`
    says that the file was rotated and reading began again.
    """
    files = Unit(call, profile, unit)
    spec = files.spec() or {}
    record = files.record(spec.get("serial"))
    # Looked at before the log is: nothing comes after the last words of a process that is gone.
    runs = alive(record, record)
    data, begin, size = read_piece(spec.get("log", ""), offset, limit)
    whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == limit else b"")
    if not runs and len(data) < limit:
        whole = data
    known = read_json(files.file("secrets.json")) or {}
    text = hidden(whole, forms(known.values())).decode("utf-8", "replace")
    return {
        "text": text,
        "offset": begin + len(whole),
        "size": size,
        "turned": offset > size and os.path.exists(spec.get("log", "")),
    }


OPERATIONS = (state, listing, warm, start, keep, stop, log)
