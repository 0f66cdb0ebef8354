"""What can go from a host: releases beyond the kept ones, and what no release refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.stored import Inventory, Stored, StoredRelease, StoredUnit
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.fan_out import fan_out
from deployctl.engine.ledger import lock
from deployctl.errors import RemoteError
from deployctl.hosts.operations import garbage, releases, units
from deployctl.hosts.session import Call
from deployctl.steps.identity import MAIN, replica_number

SCHEMA = "deployctl.gc/1"
UNFINISHED = (".part", ".incoming")
"""What a folder's name ends with until it was downloaded, or received, as a whole."""


@dataclass(frozen=True)
class Doomed:
    """One thing to remove: a release of one unit, or an entry of a shared kind. Bytes."""

    kind: str
    name: str
    bytes: int
    why: str
    profile: str = ""
    unit: str = ""


def kept_releases(unit: StoredUnit, keep: int) -> dict[str, str]:
    """The releases of a unit that stay, each with why: current, previous, running, the newest
    sealed ones up to `keep` beside those, and as many that were prepared and not yet launched
    (the newest at the least: it is what the next run is to switch to)."""
    kept = {
        name: role
        for role, name in (
            ("running", unit["running"]),
            ("previous", unit["previous"]),
            ("current", unit["current"]),
        )
        if name
    }
    others = [
        (release["sealed"], name)
        for name, release in unit["releases"].items()
        if release["sealed"] is not None and name not in kept
    ]
    for _, name in sorted(others, reverse=True)[:keep]:
        kept[name] = "among the newest good ones"
    prepared = [
        (release["prepared"], name)
        for name, release in unit["releases"].items()
        if release["prepared"] is not None and name not in kept
    ]
    for _, name in sorted(prepared, reverse=True)[: max(keep, 1)]:
        kept[name] = "prepared, not yet launched"
    return kept


def doomed(inventory: Inventory, profile: str, keep: int) -> list[Doomed]:
    """What goes. Pure. Other profiles keep all of their releases, and with them what they use;
    a job that runs keeps what it makes."""
    gone: list[Doomed] = []
    staying: list[StoredRelease] = []
    units = ((n, u, found) for n, own in inventory["profiles"].items() for u, found in own.items())
    for name, unit, found in units:
        kept = kept_releases(found, keep) if name == profile else None
        for release, facts in found["releases"].items():
            if kept is None or release in kept:
                staying.append(facts)
            else:
                proven = facts["sealed"] is not None or facts["prepared"] is not None
                why = "older than the kept ones" if proven else "never proven"
                gone.append(Doomed("releases", release, facts["bytes"], why, name, unit))
    used = {text for facts in staying for text in (*facts["models"], *facts["mentions"])}
    used |= {str(facts["environment"]) for facts in staying}
    at_work = {n: job for n, job in inventory["jobs"].items() if job["state"] == "running"}
    used |= {*inventory["programs"]}
    running = [job["label"] for job in at_work.values()]
    used |= {str(value) for label in running for value in label.values()}
    names = {part for text in used for part in text.split("/")}
    shared: dict[str, Mapping[str, Stored]] = {
        "environments": inventory["environments"],
        "wheels": inventory["wheels"],
        "models": inventory["models"],
        "jobs": inventory["jobs"],
        "caches": inventory["caches"],
        "compiled": inventory["compiled"],
        "shipping": inventory["shipping"],
        "routers": inventory["routers"],
    }
    for kind, entries in shared.items():
        if kind == "wheels" and any("key" in label for label in running):
            # A build that runs has made one that nothing names yet, or is about to install one.
            continue
        for name, entry in entries.items():
            # A job at work may outlive the run that began it.
            busy = kind == "jobs" and name in at_work
            if _finished(name) not in names and not busy:
                gone.append(Doomed(kind, name, entry["bytes"], "no release refers to it"))
    return gone


def _finished(name: str) -> str:
    """The name that a folder has once it is whole."""
    for ending in UNFINISHED:
        name = name.removesuffix(ending)
    return name


def collect(profile: Profile, keep: int, dry_run: bool) -> dict[str, Any]:
    """Remove what can go on every host, one after the other; returns the document."""

    def clear(host: HostSettings, connected: Connected) -> dict[str, Any]:
        return _host(host, connected, profile.name, keep, dry_run)

    hosts = fan_out(profile.by_machine(), clear)
    return {"schema": SCHEMA, "profile": profile.name, "dry_run": dry_run, "hosts": hosts}


def _host(
    host: HostSettings, connected: Connected, profile: str, keep: int, dry_run: bool
) -> dict[str, Any]:
    if not dry_run:
        _lock(host, connected, profile)
    found = doomed(connected.session.call(garbage.inventory), profile, keep)
    removed: list[dict[str, Any]] = []
    for one in found:
        failure = None if dry_run else _remove(connected, one)
        removed.append({**vars(one), "error": failure})
    total = sum(one["bytes"] for one in removed if one["error"] is None)
    return {"removed": removed, "bytes": total}


def _lock(host: HostSettings, connected: Connected, profile: str) -> None:
    """Take every profile's lock on a host: another one's run may be about to refer to what is not
    yet referred to."""
    names = connected.session.call(releases.profiles)
    wanted = [(name, MAIN) for name in sorted({*names, profile})]
    wanted += [
        (name, unit)
        for name in names
        for unit in connected.session.call(units.listing, profile=name)
        if (replica_number(unit) or 1) > 1
    ]
    takes = [lock.take(name, f"gc-{profile}", unit=unit) for name, unit in wanted]
    answers = connected.session.ask(takes)
    for (name, _), answer in zip(wanted, answers, strict=True):
        if isinstance(answer, RemoteError):
            whose = name if name != profile else ""
            raise lock.held(host.name, answer, False, whose) if answer.kind == "locked" else answer


def _remove(connected: Connected, one: Doomed) -> str | None:
    about = {"kind": one.kind, "name": one.name, "profile": one.profile, "unit": one.unit}
    call = Call(garbage.remove, **about)
    (answer,) = connected.session.ask((call,))
    return answer.message if isinstance(answer, RemoteError) else None
