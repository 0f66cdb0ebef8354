"""A server that sleeps: vLLM's sleep mode, asked of the server by whoever holds its control key.

Beside a unit's server (`@/profiles/PROFILE/units/UNIT/server`)::

    control/deployctl_guard.py   the middleware that keeps control endpoints for deployctl
    control.key                  the key, mode 0600; the same for all starts of the unit
    asleep.json                  the process that sleeps, and since when

Asleep (level 1) it keeps its process, its port and its weights in host memory; level 2 keeps no
weights. New requests wait in it. The key never leaves the host.
"""

from __future__ import annotations

import json
import os
import secrets as random
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from ..core import memory
from ..core.atomic_files import write_json, write_text
from ..core.interface import AgentError, Call
from ..core.weight_files import weights
from ..network.network import exchange
from ..wire.answers import Guarded, HttpAnswer, Sleeper, Slept, UnitState
from .unit_files import Unit
from .unit_state import unit_state

MODULE = "deployctl_guard"
KEY, HEADER = "DEPLOYCTL_CONTROL_KEY", "x-deployctl-key"
OPTION = "--enable-sleep-mode"
PATIENCE = 5.0
"""Seconds for an answer that takes the engine no time."""


def controlled(
    unit: Unit, guard: str, env: Optional[Dict[str, str]], secrets: Optional[Dict[str, str]]
) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Environment and secrets of a server with control endpoints, with the text of their `guard`
    laid beside it."""
    folder = unit.file("control")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_text(os.path.join(folder, MODULE + ".py"), guard, 0o600)
    path = unit.file("control.key")
    if not os.path.exists(path):
        write_text(path, random.token_hex(32), 0o600)
    given = dict(env or {})
    before = given.get("PYTHONPATH")
    given["PYTHONPATH"] = folder + (os.pathsep + before if before else "")
    given["VLLM_SERVER_DEV_MODE"] = "1"
    return given, dict(secrets or {}, **{KEY: _key(unit)})


def look(call: Call, profile: str, unit: str) -> Sleeper:
    """Whether a server can sleep, and what that takes: `able` where it was started for it, `asleep`
    as it says itself (None: it does not answer), `weights` in bytes of the models in its command
    line (None: not known), `memory` that is available here."""
    files = Unit(call, profile, unit)
    now = unit_state(files)
    able = now["state"] == "running" and OPTION in now["argv"] and bool(_key(files))
    folders = [one for one in _models(now.get("argv") or []) if os.path.isdir(one)]
    size = sum(dict(weights(folders)).values())
    return {
        "able": able,
        "asleep": _sleeps(files, now) if able else None,
        "weights": size or None,
        "memory": memory.available(),
    }


def sleep(call: Call, profile: str, unit: str, level: int, limit: float = 120.0) -> Slept:
    """Put a server to sleep within `limit` seconds; requests in flight are aborted. Error
    `not-asleep` where it does not sleep then."""
    files = Unit(call, profile, unit)
    began = time.monotonic()
    with files.alone():
        now = _running(files, "not-asleep")
        mark = {"pid": now["pid"], "start": now["start"], "since": time.time(), "level": level}
        write_json(files.file("asleep.json"), mark)
        answer = _ask(files, now, "POST", "/sleep?level=%d&mode=abort" % level, limit)
        asleep = _sleeps(files, now)
        if answer["status"] != 200 or asleep is not True:
            if asleep is False:
                _forget(files)
            raise AgentError("not-asleep", "it does not sleep: %s" % _words(answer))
    return {"seconds": round(time.monotonic() - began, 3)}


def wake(call: Call, profile: str, unit: str, limit: float = 120.0) -> Slept:
    """Wake a server within `limit` seconds. Error `not-awake` where it is not awake then."""
    files = Unit(call, profile, unit)
    began = time.monotonic()
    with files.alone():
        now = _running(files, "not-awake")
        answer = _ask(files, now, "POST", "/wake_up", limit)
        if answer["status"] != 200 or _sleeps(files, now) is not False:
            raise AgentError("not-awake", "it does not wake: %s" % _words(answer))
        _forget(files)
    return {"seconds": round(time.monotonic() - began, 3)}


def guarded(call: Call, profile: str, unit: str) -> Guarded:
    """What a server answers to a question about its sleep, without its key and with it."""
    files = Unit(call, profile, unit)
    now = _running(files, "not-running")
    without = exchange("GET", _url(now) + "/is_sleeping", timeout=PATIENCE)
    return {
        "without_key": without["status"],
        "with_key": _ask(files, now, "GET", "/is_sleeping", PATIENCE)["status"],
    }


def _forget(unit: Unit) -> None:
    with suppress(FileNotFoundError):
        os.unlink(unit.file("asleep.json"))


def _key(unit: Unit) -> str:
    try:
        with open(unit.file("control.key"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _running(unit: Unit, kind: str) -> UnitState:
    now = unit_state(unit)
    if now["state"] != "running":
        raise AgentError(kind, "unit %s is %s" % (unit.name, now["state"]))
    return now


def _sleeps(unit: Unit, now: UnitState) -> Optional[bool]:
    answer = _ask(unit, now, "GET", "/is_sleeping", PATIENCE)
    try:
        found = json.loads(answer["body"])["is_sleeping"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, bool) else None


def _ask(unit: Unit, now: UnitState, method: str, path: str, limit: float) -> HttpAnswer:
    headers = {HEADER: _key(unit), "Content-Length": "0"}
    return exchange(method, _url(now) + path, headers, timeout=limit)


def _url(now: UnitState) -> str:
    given = dict(zip(now["argv"], now["argv"][1:]))
    host, port = given.get("--host", ""), given.get("--port", "")
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}
    return "http://%s:%s" % (everywhere.get(host, host), port)


def _models(argv: List[str]) -> List[str]:
    given: Dict[str, Any] = dict(zip(argv, argv[1:]))
    found = argv[2:3]
    with suppress(ValueError, AttributeError, TypeError):
        found.append(str(json.loads(given["--speculative-config"]).get("model") or ""))
    return [one for one in found if one]


def _words(answer: HttpAnswer) -> str:
    said = answer["body"].strip()[:500]
    return answer["error"] or "HTTP %s%s" % (answer["status"], ": " + said if said else "")


OPERATIONS = (look, sleep, wake, guarded)
