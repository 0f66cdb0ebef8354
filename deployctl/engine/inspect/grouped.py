"""The status of a group: a rank is healthy where all are, and of those that ended the one is named
that ended first, with what its log says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected
from deployctl.errors import HostError
from deployctl.hosts.operations import units
from deployctl.steps.facts import known_unit
from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.servers.process import was_proven
from deployctl.vllm.logs.server import explain

TAIL = 65536


def rank(wanted: Deployment, answers: Answers, connected: Connected) -> dict[str, Any]:
    """What a group's status has of one rank beside that of a server; nothing for one of its own. A
    rank without an API is healthy while the process runs that was there when the head was proven.
    """
    member, unit = wanted.member, known_unit(answers)
    if member is None:
        return {}
    ended = unit.get("ended") is not None and unit["state"] != "stopped"
    found = {
        "rank": member.rank,
        "lost": unit.get("lost"),
        "words": _words(wanted, connected) if ended else "",
    }
    if member.rank:
        found |= {"healthy": was_proven(unit), "generates": None}
    return found


def _words(wanted: Deployment, connected: Connected) -> str:
    """What the log says of the end of a rank; empty where nothing in it is known."""
    try:
        log = connected.session.call(units.log, **wanted.unit_id, offset=-TAIL)
    except HostError:
        return ""
    known = explain(log["text"])
    return known.sentence or (known.lines[0] if known.lines else "")


def judged(profile: Profile, hosts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The hosts of a profile's groups, each healthy only where all of its group are, and `group`:
    whether all ranks run as they were proven (None: not all hosts were to be asked), and which
    ended first."""
    if profile.group is None:
        return {"hosts": list(hosts)}
    asked = [host for host in hosts if "error" not in host]
    ill = {host["host"] for host in hosts if not host["healthy"]}
    broken = {one.name for name in ill for one in profile.grouped(name)}
    if not ill and len(hosts) < len(profile.everywhere):
        return {"hosts": list(hosts), "group": {"whole": None, "first_to_end": None}}
    shown = [{**host, "healthy": host["host"] not in broken} for host in hosts]
    return {"hosts": shown, "group": {"whole": not ill, "first_to_end": first_to_end(asked)}}


def first_to_end(hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The rank that ended by itself, and not since another one had; the earliest, where several
    did. None where none has ended."""
    ended = [host for host in hosts if host.get("last_exit") and host["state"] != "stopped"]
    if not ended:
        return None
    first = min(ended, key=lambda host: (host["lost"] is not None, host["last_exit"]["time"]))
    return {
        "host": first["host"],
        "rank": first["rank"],
        **first["last_exit"],
        "words": first["words"],
    }
