"""What has become of a unit's server, from what its supervisor recorded and what runs."""

from __future__ import annotations

import os
from typing import Any, Dict

from ..processes import processes
from ..wire.answers import UnitState
from .unit_files import ENDED, Unit


def _word(record: Dict[str, Any], running: bool, supervised: bool) -> str:
    if running:
        return "running"
    if record.get("state") in ENDED:
        return str(record["state"])
    if record.get("state") == "ending":
        # The main process is gone; the supervisor ends what it left.
        return "exited" if record["rc"] == 0 else "failed"
    return "starting" if supervised else "lost"


def unit_state(unit: Unit) -> UnitState:
    """The state of a unit, as `units.state` describes it."""
    spec = unit.spec()
    if spec is None:
        return {"state": "absent", "pid": None, "start": None, "release": None, "members": []}
    record, running, supervised = unit.standing(spec["serial"])
    members = unit.members(spec, record)
    return {
        "state": _word(record, running, supervised),
        "supervised": supervised,
        "kept": os.path.exists(unit.file("kept")),
        "proven": unit.proven(),
        "loaded": record.get("loaded"),
        "pid": record.get("pid"),
        "start": record.get("start"),
        "started": record.get("started"),
        "ended": record.get("ended"),
        "rc": record.get("rc"),
        "error": record.get("error"),
        "restarts": record.get("restarts", 0),
        "liveness": record.get("liveness"),
        "lost": record.get("lost"),
        "asleep": unit.asleep(record) if running else None,
        "warm": record.get("warm"),
        "release": spec["release"],
        "argv": spec["argv"],
        "log": spec["log"],
        "kind": spec["kind"],
        "cpu": sum(m.cpu for m in members) / processes.TICKS,
        "io": processes.moved(members),
        "members": [processes.describe_process(m) for m in members],
    }
