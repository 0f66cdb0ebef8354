"""What the ledger says about a run that died, and what is to be done about it. All data."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.engine.ledger import entries as ledger
from deployctl.engine.run import recovery
from deployctl.engine.run.downtime import Downtime
from deployctl.errors import RemoteError

BEGIN = {"kind": "begin", "run": "r1", "playbook": "up", "release": "new", "current": "old"}
SWITCHING = {"kind": "phase", "run": "r1", "phase": "switching"}
RESTORING = {"kind": "phase", "run": "r1", "phase": "restoring", "why": "too low"}
END = {"kind": "end", "run": "r1", "outcome": "deployed"}


@pytest.mark.parametrize(
    ("entries", "phase"),
    [
        ([], None),
        ([BEGIN, END], None),
        ([BEGIN], "staging"),
        ([BEGIN, SWITCHING], "switching"),
        ([BEGIN, SWITCHING, RESTORING], "restoring"),
        ([{"kind": "damaged", "line": "{"}, BEGIN, SWITCHING], "switching"),
        ([BEGIN, SWITCHING, {**END, "outcome": "died"}], None),
    ],
)
def test_a_run_without_an_end_died_in_its_last_phase(
    entries: list[dict[str, Any]], phase: str | None
) -> None:
    dead = recovery.find(entries)
    assert (dead and dead.phase) == phase


def test_its_end_is_told_by_who_found_it() -> None:
    dead = recovery.find([BEGIN, SWITCHING])
    assert dead is not None
    entry = recovery.closing(dead, "r2", "new")
    assert (entry["run"], entry["outcome"], entry["closed_by"]) == ("r1", "died", "r2")
    assert (entry["phase"], entry["left_serving"]) == ("switching", "new")
    assert recovery.find([BEGIN, SWITCHING, entry]) is None


RUNS = {"state": "running", "pid": 5, "start": 50}


@pytest.mark.parametrize(
    ("phases", "unit", "closed", "seconds"),
    [
        ([{**SWITCHING, "time": 100.0}], {"state": "stopped"}, {"time": 165.0}, 65.0),
        (
            [{**SWITCHING, "time": 100.0}, {**RESTORING, "time": 130.0}],
            RUNS,
            {"time": 165.0},
            65.0,
        ),
        ([{**SWITCHING, "time": 100.0}], {**RUNS, "proven": {"pid": 5, "start": 50}}, {}, None),
        ([{**SWITCHING, "phase": "staging", "time": 100.0}], {"state": "stopped"}, {}, None),
        (
            [{**SWITCHING, "time": 100.0}],
            {"state": "stopped"},
            RemoteError("here", "releases.record", "OSError", "full"),
            None,
        ),
        ([], {"state": "stopped"}, {"time": 165.0}, None),
    ],
)
def test_a_gap_begins_where_the_dead_run_made_it(
    phases: list[dict[str, Any]], unit: Any, closed: Any, seconds: float | None
) -> None:
    dead = recovery.find([BEGIN, *phases])
    assert dead is not None
    assert recovery.without_service(dead, unit, closed) == seconds


@pytest.mark.parametrize(
    ("phases", "wanted", "current", "back"),
    [
        ([SWITCHING, RESTORING], "new", "old", True),
        ([SWITCHING, RESTORING], "newer", "old", False),
        ([SWITCHING, RESTORING], "new", "new", False),
        ([SWITCHING, RESTORING], "new", None, False),
        ([SWITCHING], "new", "old", False),
    ],
)
def test_only_a_way_back_is_finished_first(
    phases: list[dict[str, Any]], wanted: str, current: str | None, back: bool
) -> None:
    dead = recovery.find([BEGIN, *phases])
    assert dead is not None
    assert recovery.must_go_back(dead, wanted, current) is back


@pytest.mark.parametrize(
    ("failed", "digest", "known"),
    [
        (["acceptance"], "d", "r1"),
        (["ready"], "d", "r1"),
        (["lossless"], "d", "r1"),
        (["bench"], "d", "r1"),
        (["build"], "d", None),
        (["acceptance"], "another profile", None),
        ([], "d", None),
    ],
)
def test_a_known_failure(failed: list[str], digest: str, known: str | None) -> None:
    end: dict[str, object] = {**END, "release": "new", "outcome": "rolled-back", "failed": failed}
    entries: list[dict[str, object]] = [{**BEGIN, "profile_digest": "d"}, end]
    assert ledger.failed_before(entries, "new", digest) == known
    assert ledger.failed_before(entries, "other", digest) is None


def test_gaps_are_counted_once_and_summed() -> None:
    times = iter([10.0, 12.5, 20.0, 21.0, 30.0])
    gaps = Downtime(clock=lambda: next(times))
    assert gaps.total() is None
    gaps.interrupted()
    gaps.interrupted()
    gaps.served()
    gaps.served()
    gaps.interrupted()
    gaps.served()
    assert gaps.closed == [2.5, 1.0]
    assert gaps.total() == 3.5
    gaps.interrupted()
    assert gaps.open
