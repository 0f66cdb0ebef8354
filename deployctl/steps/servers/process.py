"""Which process a proof is about, and what that process loaded: a proof ends with its process.

Pure. A server that its supervisor started again is the same release and another process: it has
read its files again, and has not been measured yet.
"""

from __future__ import annotations

from typing import TypedDict

from deployctl.agent.wire.answers import Listener, Process, UnitState
from deployctl.steps.builds.built import sha256
from deployctl.steps.facts import DRAFTER, RELEASES, UNIT
from deployctl.steps.interface import Answers, Deployment, Unanswered
from deployctl.steps.models import sources
from deployctl.steps.release import release_paths
from deployctl.vllm.drafters.drafter import DrafterConfigError, desired

RUNNING = ("starting", "running")


class Identity(TypedDict):
    """A unit's process: pid, and start in clock ticks since boot."""

    pid: int | None
    start: int | None


def identity(unit: UnitState) -> Identity:
    """The unit's process that runs now."""
    return {"pid": unit["pid"], "start": unit["start"]}


def was_proven(unit: UnitState) -> bool:
    """Whether the process that runs now was proven ready."""
    return unit["state"] == "running" and unit.get("proven") == identity(unit)


def loaded_otherwise(wanted: Deployment, answers: Answers) -> str:
    """Why the running process does not draft with the wanted config; empty where it does, or no
    drafter's config is known to be wanted."""
    expected = _config_digest(wanted, answers)
    if expected is None:
        return ""
    unit = answers[UNIT]
    # By what it is of its release: where that lay when the process began may have changed.
    loaded = {_in_release(path): digest for path, digest in (unit.get("loaded") or {}).items()}
    path = _in_release(f"{release_paths(wanted, answers).drafter}/config.json")
    if path not in loaded:
        restarted = bool(unit.get("restarts"))
        return "which config.json the restarted process loaded is unknown" if restarted else ""
    return "" if loaded[path] == expected else "the running process loaded another config.json"


def _in_release(path: str) -> str:
    return path[path.find("/releases/") :]


def _config_digest(wanted: Deployment, answers: Answers) -> str | None:
    """The SHA-256 of the wanted config.json: as the profile wants it, else as it was sealed."""
    drafter = wanted.profile.drafter
    if drafter is None or sources.source(wanted, DRAFTER) is None:
        return None
    if wanted.pinned is None:
        try:
            upstream = sources.config_text(wanted, answers, DRAFTER)
            return sha256(desired(upstream, drafter.config).text)
        except (Unanswered, DrafterConfigError):
            pass
    manifest = answers[RELEASES]["releases"].get(release_paths(wanted, answers).release)
    sealed: str | None = (manifest or {}).get("drafter_config")
    return sealed


def strangers(port: Listener, unit: UnitState) -> list[Process]:
    """Who holds the port without belonging to the unit. A child that a member has begun since the
    unit was looked at belongs to it."""
    members = unit["members"]
    ours = {(m["pid"], m["start"]) for m in members}
    parents = {m["pid"] for m in members}
    others = [h for h in port["holders"] if (h["pid"], h["start"]) not in ours]
    return [h for h in others if h["parent"] not in parents]
