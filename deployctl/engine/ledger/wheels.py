"""Built wheels that hosts keep: which there are, which are in use, and removing the rest."""

from __future__ import annotations

import re
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.fan_out import fan_out
from deployctl.errors import UsageError
from deployctl.hosts.operations import environment, jobs, releases, units
from deployctl.hosts.session import Session
from deployctl.steps.build import BuildStep

SCHEMA = "deployctl.wheels/1"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def listing(profile: Profile) -> dict[str, Any]:
    """Every kept wheel of each of the profile's hosts, with the profiles that use it, and the jobs
    (builds, downloads) that run there."""

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        kept = connected.session.call(environment.wheels)
        used = users(connected.session)
        known = connected.session.call(jobs.listing)
        return {
            "wheels": [{**wheel, "used_by": used.get(wheel["key"], [])} for wheel in kept],
            "running": [job["id"] for job in known if job["state"] == "running"],
        }

    return {"schema": SCHEMA, "hosts": fan_out(profile.by_machine(), look)}


def prune(profile: Profile, limit: int) -> dict[str, Any]:
    """Keep at most `limit` bytes of wheels on each host: those longest unused go first, those
    of a release stay."""

    def remove(host: HostSettings, connected: Connected) -> dict[str, Any]:
        session = connected.session
        keep = sorted(users(session))
        return dict(session.call(environment.prune_wheels, limit=limit, keep=keep))

    return {"schema": SCHEMA, "hosts": fan_out(profile.by_machine(), remove)}


def users(session: Session) -> dict[str, list[str]]:
    """Wheels by key, with the profiles one of whose releases was installed from them."""
    found: dict[str, list[str]] = {}
    for profile in session.call(releases.profiles):
        for unit in session.call(units.listing, profile=profile):
            state = session.call(releases.state, profile=profile, unit=unit)
            for manifest in state["releases"].values():
                built = (manifest or {}).get("identity", {}).get("environment")
                seal = state["environments"].get(built) or {}
                key = seal.get("evidence", {}).get(BuildStep.name, {}).get("wheel")
                if key and profile not in found.setdefault(key, []):
                    found[key].append(profile)
    return found


def size(text: str) -> int:
    """`20G`, `500M` or a number, as bytes."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise UsageError(f"not a size: {text}", next="write 20G or 500M")
    return int(float(match.group(1)) * _UNITS[match.group(2)])
