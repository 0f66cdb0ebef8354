"""What can go from a host: releases beyond the kept ones, and what no release refers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.ledger import lock
from deployctl.engine.run.connect import Connected
from deployctl.engine.run.fan_out import fan_out
from deployctl.engine.strategies.slots import SLOTS
from deployctl.errors import RemoteError
from deployctl.hosts.session import Call

SCHEMA = "deployctl.gc/1"
SHARED = ("environments", "wheels", "models", "jobs", "caches")
UNFINISHED = ".part"
"""What a model's folder is called until its download is whole."""


@dataclass(frozen=True)
class Doomed:
    """One thing to remove: a release of `profile`, or an entry of a shared kind. Bytes."""

    kind: str
    name: str
    bytes: int
    why: str
    profile: str = ""


def kept_releases(profile: Mapping[str, Any], keep: int) -> dict[str, str]:
    """The releases of a profile that stay, each with why: current, previous, running, the newest
    sealed ones up to `keep` beside those, and as many that were prepared and not yet launched
    (the newest at the least: it is what the next run is to switch to)."""
    kept = {
        str(profile[role]): role for role in ("running", "previous", "current") if profile[role]
    }
    others = [
        (release["sealed"], name)
        for name, release in profile["releases"].items()
        if release["sealed"] is not None and name not in kept
    ]
    for _, name in sorted(others, reverse=True)[:keep]:
        kept[name] = "among the newest good ones"
    prepared = [
        (release["prepared"], name)
        for name, release in profile["releases"].items()
        if release["prepared"] is not None and name not in kept
    ]
    for _, name in sorted(prepared, reverse=True)[: max(keep, 1)]:
        kept[name] = "prepared, not yet launched"
    return kept


def doomed(inventory: Mapping[str, Any], profile: str, keep: int) -> list[Doomed]:
    """What goes. Pure. Other profiles keep all of their releases, and with them what they use;
    a job that runs keeps what it makes."""
    family = (profile, *(f"{profile}.{slot}" for slot in SLOTS))
    gone: list[Doomed] = []
    staying: list[Mapping[str, Any]] = []
    for name, found in inventory["profiles"].items():
        kept = kept_releases(found, keep) if name in family else found["releases"]
        for release, facts in found["releases"].items():
            if release in kept:
                staying.append(facts)
            else:
                proven = facts["sealed"] is not None or facts["prepared"] is not None
                why = "older than the kept ones" if proven else "never proven"
                gone.append(Doomed("releases", release, facts["bytes"], why, name))
    used = {str(text) for facts in staying for text in (*facts["models"], *facts["mentions"])}
    used |= {str(facts["environment"]) for facts in staying}
    running = [facts["label"] for facts in inventory["jobs"].values() if _runs(facts)]
    used |= {str(value) for label in running for value in label.values()}
    names = {part for text in used for part in text.split("/")}
    for kind in SHARED:
        if kind == "wheels" and any("key" in label for label in running):
            # A build that runs has made one that nothing names yet, or is about to install one.
            continue
        for name, facts in inventory[kind].items():
            if name.removesuffix(UNFINISHED) not in names and not _runs(facts):
                gone.append(Doomed(kind, name, facts["bytes"], "no release refers to it"))
    return gone


def _runs(facts: Mapping[str, Any]) -> bool:
    """Whether an entry is a job at work, which may outlive the run that began it."""
    return facts.get("state") == "running"


def collect(profile: Profile, keep: int, dry_run: bool) -> dict[str, Any]:
    """Remove what can go on every host, one after the other; returns the document."""

    def clear(host: HostSettings, connected: Connected) -> dict[str, Any]:
        return _host(host, connected, profile.name, keep, dry_run)

    hosts = fan_out(profile, clear)
    return {"schema": SCHEMA, "profile": profile.name, "dry_run": dry_run, "hosts": hosts}


def _host(
    host: HostSettings, connected: Connected, profile: str, keep: int, dry_run: bool
) -> dict[str, Any]:
    names: Sequence[str] = connected.session.call("releases.profiles")
    # Another profile's run may be about to refer to what is not yet referred to.
    takes = [lock.take(name, f"gc-{profile}") for name in sorted({*names, profile})]
    for answer in connected.session.ask(takes):
        if isinstance(answer, RemoteError):
            raise lock.held(host.name, answer, waits=False) if answer.kind == "locked" else answer
    found = doomed(connected.session.call("garbage.inventory"), profile, keep)
    removed: list[dict[str, Any]] = []
    for one in found:
        failure = None if dry_run else _remove(connected, one)
        removed.append({**vars(one), "error": failure})
    total = sum(one["bytes"] for one in removed if one["error"] is None)
    return {"removed": removed, "bytes": total}


def _remove(connected: Connected, one: Doomed) -> str | None:
    arguments = {"kind": one.kind, "name": one.name, "profile": one.profile}
    (answer,) = connected.session.ask([Call("garbage.remove", arguments)])
    return answer.message if isinstance(answer, RemoteError) else None
