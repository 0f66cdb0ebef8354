"""Everything deployctl keeps on this host, with what refers to what, so that the rest can go."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..core import layout, trees
from ..core.atomic_files import read_json
from ..core.interface import AgentError, Call
from ..supervision import jobs, units
from ..wire.stored import (
    Collected,
    Inventory,
    Stored,
    StoredJob,
    StoredRelease,
    StoredUnit,
)
from .files import ASIDE
from .release_status import PREPARED
from .releases import profiles

KINDS = ("caches", "compiled", "environments", "jobs", "models", "routers", "shipping", "wheels")

Inode = Tuple[int, int]
"""device and inode"""


def inventory(call: Call) -> Inventory:
    """`profiles`: by name each unit's `current`, `previous`, `running` (a release or None) and
    `releases` (by id: `sealed` and, until it is launched, `prepared` as Unix times or None,
    `environment`, `models`, `mentions`, `bytes`); `environments`, `jobs`, `models`, `shipping` and
    `wheels` by name with `bytes` (a hard-linked file counts where it is met first) and, for a job,
    `state` and `label`; `routers` likewise, and `programs`, the paths of those that profiles have
    or had last."""
    seen: Dict[Inode, bool] = {}
    kept = {
        name: {unit: _unit(call, name, unit, seen) for unit in layout.units(call.root, name)}
        for name in profiles(call)
    }
    caches, compiled, environments, works, models, routers, shipping, wheels = (
        _stored(call, kind, seen) for kind in KINDS
    )
    return {
        "profiles": kept,
        "caches": caches,
        "compiled": compiled,
        "environments": environments,
        "jobs": {name: _job(call, name, found["bytes"]) for name, found in works.items()},
        "models": models,
        "routers": routers,
        "programs": sorted({one for name in kept for one in _programs(call, name)}),
        "shipping": shipping,
        "wheels": wheels,
    }


def _programs(call: Call, profile: str) -> Iterator[str]:
    """The program that a profile's router was started with last."""
    told = _json(os.path.join(call.profile(profile), layout.ROUTER + ".json")) or {}
    yield from map(str, (told.get("argv") or ())[:1])


def _stored(call: Call, kind: str, seen: Dict[Inode, bool]) -> Dict[str, Stored]:
    entries = _entries(os.path.join(call.root, kind))
    return {name: {"bytes": _bytes(call, path, seen)} for name, path in entries}


def _job(call: Call, name: str, size: int) -> StoredJob:
    if name.startswith(ASIDE):
        return {"state": "none", "label": {}, "bytes": size}
    now = jobs.state(call, name)
    return {"state": now["state"], "label": now.get("label") or {}, "bytes": size}


def _unit(call: Call, profile: str, unit: str, seen: Dict[Inode, bool]) -> StoredUnit:
    current, previous, running = _used(call, profile, unit)
    return {
        "current": current,
        "previous": previous,
        "running": running,
        "releases": {
            release: _release(call, path, seen)
            for release, path in _entries(call.unit(profile, unit, "releases"))
        },
    }


def _used(call: Call, profile: str, unit: str) -> List[Optional[str]]:
    """The releases of a unit that are current, previous and running."""
    now = units.state(call, profile, unit)
    alive = now["state"] in ("starting", "running") or bool(now["members"])
    links = [_target(call.unit(profile, unit, name)) for name in layout.LINKS]
    return [*links, now["release"] if alive else None]


def _release(call: Call, path: str, seen: Dict[Inode, bool]) -> StoredRelease:
    if os.path.basename(path).startswith(ASIDE):
        return {
            "sealed": None,
            "prepared": None,
            "environment": None,
            "models": [],
            "mentions": [],
            "bytes": _bytes(call, path, seen),
        }
    environment = _target(os.path.join(path, "environment"))
    seal = os.path.join(path, "environment", "seal.json")
    # One that runs and was never sealed has its model in its launch line alone.
    told = ("manifest.json", PREPARED, "launch.json")
    notes = [*(os.path.join(path, name) for name in told), seal]
    sealed, prepared, launched = (
        _time(os.path.join(path, name)) for name in ("manifest.json", PREPARED, "launch.json")
    )
    if sealed is not None or (prepared or 0.0) <= (launched or 0.0):
        prepared = None
    return {
        "sealed": sealed,
        "prepared": prepared,
        "environment": environment,
        "models": sorted(_models(path)),
        "mentions": sorted({text for note in notes for text in _mentions(_json(note))}),
        "bytes": _bytes(call, path, seen),
    }


def _time(path: str) -> Optional[float]:
    return os.path.getmtime(path) if os.path.exists(path) else None


def _json(path: str) -> Any:
    if not os.path.exists(path):
        return None
    try:
        return read_json(path)
    except ValueError as error:
        said = "%s is damaged: what it refers to is not known: %s; deployctl up rewrites it"
        raise AgentError("damaged", said % (path, error)) from error


def _models(release: str) -> List[str]:
    """The folders that the release's view of its drafter links into."""
    folder = os.path.join(release, "drafter")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    links = [os.path.join(folder, name) for name in names]
    return list({os.path.dirname(os.path.realpath(link)) for link in links if os.path.islink(link)})


def _mentions(value: Any) -> List[str]:
    """Every string of a manifest: whatever is named there is in use."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in _mentions(item)]
    if isinstance(value, list):
        return [text for item in value for text in _mentions(item)]
    return [value] if isinstance(value, str) and len(value) < 1024 else []


def _target(link: str) -> Optional[str]:
    return os.path.basename(os.readlink(link)) if os.path.islink(link) else None


def _entries(folder: str) -> List[Tuple[str, str]]:
    if not os.path.isdir(folder):
        return []
    return sorted((e.name, e.path) for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))


def _bytes(call: Call, path: str, seen: Dict[Inode, bool]) -> int:
    total = 0
    for status in trees.statuses(path, call.step):
        inode = (status.st_dev, status.st_ino)
        if inode not in seen:
            seen[inode] = True
            total += status.st_blocks * 512
    return total


def remove(call: Call, kind: str, name: str, profile: str = "", unit: str = "") -> Collected:
    """Remove one release (`kind` "releases", of a profile's unit) or entry of another kind.

    Refused (`in-use`) for what is current, previous or running, and for a job that runs. It is
    moved aside first, so that half of it is never met under its name.
    """
    if kind == "releases":
        if name in _used(call, profile, unit):
            raise AgentError("in-use", "release %s is current, previous or running" % name)
        path = os.path.join(call.unit(profile, unit, "releases"), name)
    elif kind in KINDS:
        if kind == "jobs" and _job(call, name, 0)["state"] == "running":
            raise AgentError("in-use", "job %s runs" % name)
        path = os.path.join(call.root, kind, name)
    else:
        raise AgentError("bad-arguments", "%s is not kept here" % kind)
    if os.path.basename(path) != name or name in (".", ".."):
        raise AgentError("bad-arguments", "invalid name %r" % name)
    aside = os.path.join(os.path.dirname(path), ASIDE + name.replace(ASIDE, ""))
    if path != aside and os.path.isdir(path):
        if os.path.isdir(aside):
            trees.remove(aside)
        os.rename(path, aside)
    if os.path.isdir(aside):
        trees.remove(aside)
    return {"removed": name}


OPERATIONS = (inventory, remove)
