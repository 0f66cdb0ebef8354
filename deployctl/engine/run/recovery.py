"""What a run finds that died: the ledger's entry without an end, and what it left.

We hold the lock when we read the ledger, so a run that began and has no end is dead: its controller
was killed, its connection cut, or its host started again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.answers import Recorded, UnitState
from deployctl.errors import RemoteError
from deployctl.steps.identity import MAIN
from deployctl.steps.servers.process import was_proven


@dataclass(frozen=True)
class Dead:
    """A run that died. `phase` is the last that it recorded: staging, switching or
    restoring; `release` what it was making, `current` what was current when it began."""

    run: str
    phase: str
    release: str | None
    current: str | None
    playbook: str = ""
    why: str = ""
    """Why it was going back, where it was restoring."""
    changed: tuple[str, ...] = ()
    """The steps that had changed something, the one that was under way among them."""
    unit: str = MAIN
    """The unit that it worked on."""
    since: float | None = None
    """When it began to switch, by the host's clock (seconds since 1970); None where it did not."""


def find(entries: Sequence[Mapping[str, Any]]) -> Dead | None:
    """The last run of a ledger (oldest entry first) that has no end, once we hold the lock."""
    last = open_entry(entries)
    if last is None:
        return None
    phases = [e for e in entries if e.get("kind") == "phase" and e.get("run") == last["run"]]
    switched = (e["time"] for e in phases if e["phase"] != "staging" and e.get("time"))
    return Dead(
        since=next(switched, None),
        run=str(last["run"]),
        phase=str(phases[-1]["phase"]) if phases else "staging",
        release=last.get("release"),
        unit=str(last.get("unit") or MAIN),
        current=last.get("current"),
        playbook=str(last.get("playbook") or ""),
        why=str(phases[-1].get("why") or "") if phases else "",
        changed=tuple(changed(entries, str(last["run"]))),
    )


def open_entry(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The entry that began the last run without an end: it is at work, or it died."""
    ended = {entry.get("run") for entry in entries if entry.get("kind") == "end"}
    begun = (e for e in reversed(entries) if e.get("kind") == "begin")
    return next((dict(e) for e in begun if e.get("run") not in ended), None)


def changed(entries: Sequence[Mapping[str, Any]], run: str) -> list[str]:
    """What a run without an end has changed, by the entries that it left: steps in order."""
    steps: list[str] = []
    for entry in entries:
        if entry.get("kind") == "phase" and entry.get("run") == run:
            steps += [str(step) for step in (*entry.get("changed", ()), entry.get("step", ""))]
            if entry.get("phase") == "restoring":
                steps.append("restore")
    return [step for step in dict.fromkeys(steps) if step]


def closing(dead: Dead, run: str, serving: str | None) -> dict[str, Any]:
    """The entry that closes a dead run, in the name of the run that found it."""
    return {
        "kind": "end",
        "run": dead.run,
        "unit": dead.unit,
        "playbook": dead.playbook,
        "release": dead.release,
        "outcome": "died",
        "phase": dead.phase,
        "left_serving": serving,
        "closed_by": run,
        "changed": list(dead.changed),
        "failed": [],
        "error": f"the run died while {dead.phase}",
        "figures": {},
    }


def without_service(dead: Dead, unit: UnitState, closed: Recorded | RemoteError) -> float | None:
    """Seconds since a dead run began to switch, where nothing that was proven has served since;
    `closed` is the host's answer to the closing entry, with its own time. None where something
    serves, where it was only staging, or where the host did not answer."""
    if dead.since is None or was_proven(unit) or isinstance(closed, RemoteError):
        return None
    return closed["time"] - dead.since


def must_go_back(dead: Dead, wanted: str | None, current: str | None) -> bool:
    """Whether the rollback of a dead run is to be finished first.

    It had found its release wanting. To retry that release at once would interrupt the service for
    what is known to fail; another release is deployed as usual.
    """
    return dead.phase == "restoring" and wanted == dead.release and current not in (None, wanted)


def sentence(dead: Dead) -> str:
    """A dead run in words."""
    return f"run {dead.run} died while {dead.phase} release {dead.release}"
