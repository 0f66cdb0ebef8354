"""Look without touching: the ledger of every host."""

from __future__ import annotations

from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.fan_out import fan_out
from deployctl.engine.run import recovery
from deployctl.hosts.operations import releases
from deployctl.steps import replicas
from deployctl.steps.identity import MAIN


def ledger(profile: Profile, last: int) -> dict[str, Any]:
    """The last entries of every host's ledger, oldest first."""

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        entries = connected.session.call(releases.ledger, profile=profile.name)
        if profile.replicas.per_host > 1:
            own = replicas.placed(profile, host)
            entries = [one for one in entries if _of(one) in replicas.own_units(own, (_of(one),))]
        damaged = [entry["line"] for entry in entries if entry.get("kind") == "damaged"]
        return {"runs": _runs(entries)[-last:], "damaged": damaged}

    found = fan_out(profile, look, alone=True)
    hosts = [{"runs": [], "damaged": [], **host} for host in found]
    return {"schema": "deployctl.history/1", "profile": profile.name, "hosts": hosts}


def _of(entry: dict[str, Any]) -> str:
    """The unit of an entry."""
    return str(entry.get("unit") or MAIN)


def _runs(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every run once: how it ended, and by whom and from where it was begun. One that has no end
    is still at work, or died."""
    begun = {entry["run"]: entry for entry in entries if entry.get("kind") == "begin"}
    ended = {entry["run"]: entry for entry in entries if entry.get("kind") == "end"}
    runs = []
    for run in dict.fromkeys([*begun, *ended]):
        start = begun.get(run, {})
        changed = recovery.changed(entries, run)
        end = ended.get(run) or {**start, "outcome": "open", "changed": changed}
        runs.append({**end, "user": start.get("user"), "from": start.get("from")})
    return runs
