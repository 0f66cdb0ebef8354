"""Releases, their manifests, the ledger and the lock of one profile on this host.

The host is the truth: two controllers see the same. `@/profiles/<name>/` holds `ledger.jsonl` and
`lock`, `@/profiles/<name>/units/<unit>/` a unit's `releases/<id>/` and the links `current` and
`previous`; `@/environments/<key>/seal.json` marks an environment that was proven whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Dict, List, Optional, Tuple

from ..core import layout
from ..core.atomic_files import parse_object, read_json, relink, write_text
from ..core.interface import AgentError, Call
from ..core.regular_files import open_regular
from ..wire.answers import Current, Held, Recorded, Releases
from ..wire.records import BREAK, MANIFEST, SEAL, Check, wrong
from ..wire.stored import Directory, SealBroken, Written
from . import takeover

LEDGER_TAIL = 50
BROKEN = "broken.json"
_held: Dict[str, int] = {}


def _replace(path: str, text: str) -> None:
    """Write a whole file or leave the old one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_text(path, text)


def _load(path: str, shape: Dict[str, Check]) -> Optional[Dict[str, Any]]:
    """The record in a file; None where there is no file, and where it is damaged: what cannot be
    read proves nothing, and is proven and written again like what was never there."""
    try:
        found = read_json(path)
    except ValueError:
        return None
    return None if found is None or wrong(found, shape) else found


def _link(call: Call, profile: str, unit: str, name: str) -> Optional[str]:
    try:
        return os.path.basename(os.readlink(call.unit(profile, unit, name)))
    except FileNotFoundError:
        return None


def _point(path: str, release: Optional[str]) -> None:
    if release is None:
        if os.path.lexists(path):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    relink(os.path.join("releases", release), path)


def state(call: Call, profile: str, unit: str, last: int = LEDGER_TAIL) -> Releases:
    """Everything a plan must know about a unit's releases.

    Value: `current` and `previous` (ids or None), `releases` (id to manifest, None where a
    release was begun and never completed), `environments` (key to seal), `broken` (key of an
    environment whose seal was broken to why), `elsewhere` (keys of environments that releases of
    other profiles run in), `ledger` (its last entries, oldest first).
    """
    seals, broken = _environments(os.path.join(call.root, "environments"))
    releases = call.unit(profile, unit, "releases")
    ours = [one for one in layout.entries(call.profile(profile)) if _of(one) in (unit, None)]
    return {
        "current": _link(call, profile, unit, "current"),
        "previous": _link(call, profile, unit, "previous"),
        "releases": {
            name: _load(os.path.join(releases, name, "manifest.json"), MANIFEST)
            for name in layout.folders(releases)
        },
        "environments": seals,
        "broken": broken,
        "elsewhere": _elsewhere(call, profile),
        "ledger": ours[-last:],
    }


def _elsewhere(call: Call, profile: str) -> List[str]:
    """Environments of other profiles' releases. An adopted one is a link to where it was made."""
    top = os.path.realpath(os.path.join(call.root, "environments"))
    found = set()
    for other in layout.profiles(call.root):
        units = layout.units(call.root, other) if other != profile else ()
        for releases in (call.unit(other, unit, "releases") for unit in units):
            for name in layout.folders(releases):
                place = os.path.realpath(os.path.join(releases, name, "environment"))
                if os.path.dirname(place) == top:
                    found.add(os.path.basename(place))
    return sorted(found)


def _of(entry: Dict[str, Any]) -> Optional[str]:
    """The unit of an entry; None of one that is damaged. Older ones are of a profile's own."""
    return None if entry.get("kind") == "damaged" else str(entry.get("unit", layout.MAIN))


def profiles(call: Call) -> List[str]:
    """The names of the profiles that have something on this host."""
    return layout.profiles(call.root)


def lock(
    call: Call, profile: str, holder: Dict[str, Any], wait: float = 0.0, unit: str = ""
) -> Held:
    """Hold the profile's lock until this agent ends; error `locked` names who holds it.

    A kernel lock: it cannot outlive its holder. `wait` is how many seconds to wait for it. What
    lies in an older layout is moved once it is held. With `unit` it is that of one replica.
    """
    home = call.unit(profile, unit, "") if unit else call.profile(profile)
    os.makedirs(home, exist_ok=True)
    fd = os.open(os.path.join(home, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline or call.cancelled.wait(0.2):
                named = os.pread(fd, 65536, 0)
                os.close(fd)
                raise _locked(named) from None
    try:
        if not unit:
            takeover.take_over(call.root, profile)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, takeover.Busy):
            with open_regular(str(error)) as file:
                raise _locked(file.read(65536)) from None
        raise
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(dict(holder, since=time.time())).encode("utf-8"), 0)
    except OSError:
        pass  # on a full disk the lock is held all the same, by an unknown one
    previous = _held.pop(home, None)
    if previous is not None:
        os.close(previous)
    _held[home] = fd
    return {"held": True}


def _locked(holder: bytes) -> AgentError:
    try:
        named = parse_object(holder)
    except ValueError:
        named = {"run": "unknown"}
    return AgentError("locked", "another run holds the lock", named)


def prepare(call: Call, profile: str, unit: str, release: str, environment: str) -> Directory:
    """Make a release's directory and its link to the environment."""
    directory = os.path.join(call.unit(profile, unit, "releases"), release)
    os.makedirs(directory, exist_ok=True)
    link = os.path.join(directory, "environment")
    wanted = os.path.relpath(os.path.join(call.root, "environments", environment), directory)
    if not os.path.islink(link) or os.readlink(link) != wanted:
        relink(wanted, link)
    return {"directory": directory}


def seal(call: Call, profile: str, unit: str, release: str, manifest: Dict[str, Any]) -> Written:
    """Write a release's manifest: from now on the release is complete."""
    path = os.path.join(call.unit(profile, unit, "releases"), release, "manifest.json")
    _replace(path, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return {"path": path}


def seal_environment(call: Call, key: str, seal: Dict[str, Any]) -> Written:
    """Mark an environment as proven whole."""
    folder = os.path.join(call.root, "environments", key)
    path = os.path.join(folder, "seal.json")
    _replace(path, json.dumps(seal, indent=2, sort_keys=True) + "\n")
    if os.path.lexists(os.path.join(folder, BROKEN)):
        os.unlink(os.path.join(folder, BROKEN))
    return {"path": path}


def break_seal(call: Call, key: str, why: List[str]) -> SealBroken:
    """An environment counts as never proven from now on. `broken` is false where it had no seal.

    The old seal stays beside it as `broken.json`, with what was found wrong.
    """
    folder = os.path.join(call.root, "environments", key)
    path = os.path.join(folder, "seal.json")
    if not os.path.lexists(path):
        return {"broken": False}
    told = {"why": why, "time": time.time(), "seal": _load(path, SEAL)}
    _replace(os.path.join(folder, BROKEN), json.dumps(told, sort_keys=True) + "\n")
    os.unlink(path)
    return {"broken": True}


def _environments(top: str) -> Tuple[Dict[str, Any], Dict[str, List[str]]]:
    """Every environment's seal, and of those whose seal was broken (or is damaged) why."""
    seals: Dict[str, Any] = {}
    broken: Dict[str, List[str]] = {}
    for key in layout.folders(top):
        paths = [os.path.join(top, key, name) for name in ("seal.json", BROKEN)]
        seals[key], told = (_load(path, shape) for path, shape in zip(paths, (SEAL, BREAK)))
        damaged = [
            path
            for path, found in zip(paths, (seals[key], told))
            if found is None and os.path.lexists(path)
        ]
        if damaged:
            broken[key] = ["%s is damaged" % os.path.basename(damaged[0])]
        elif told is not None:
            broken[key] = list(told.get("why") or ())
    return seals, broken


def switch(
    call: Call, profile: str, unit: str, release: Optional[str], keep_previous: bool = False
) -> Current:
    """Make `release` current; the one that was becomes previous unless `keep_previous`."""
    releases = call.unit(profile, unit, "releases")
    current = _link(call, profile, unit, "current")
    if release is not None and not os.path.isdir(os.path.join(releases, release)):
        raise AgentError("no-release", "there is no release %s" % release)
    if release != current:
        if not keep_previous and current is not None:
            _point(call.unit(profile, unit, "previous"), current)
        _point(call.unit(profile, unit, "current"), release)
    return {
        "current": _link(call, profile, unit, "current"),
        "previous": _link(call, profile, unit, "previous"),
    }


def record(call: Call, profile: str, entry: Dict[str, Any]) -> Recorded:
    """Append one entry to the ledger, on disk before the answer; gives its `time`."""
    home = call.profile(profile)
    os.makedirs(home, exist_ok=True)
    now = time.time()
    line = json.dumps(dict(entry, time=now), sort_keys=True) + "\n"
    fd = os.open(os.path.join(home, layout.LEDGER), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # A line that a crash cut off must not swallow this one.
        size = os.fstat(fd).st_size
        if size:
            with open(os.path.join(home, layout.LEDGER), "rb") as file:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    line = "\n" + line
        data = line.encode("utf-8")
        while data:
            # A disk that becomes full takes a part, and refuses the rest.
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    return {"recorded": True, "time": now}


def ledger(call: Call, profile: str, last: int = 0) -> List[Dict[str, Any]]:
    """The last entries of the ledger, oldest first; all of them for 0."""
    return layout.entries(call.profile(profile), last)


OPERATIONS = (
    state,
    profiles,
    lock,
    prepare,
    seal,
    seal_environment,
    break_seal,
    switch,
    record,
    ledger,
)
