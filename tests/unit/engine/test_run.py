"""What a run is called."""

from __future__ import annotations

from datetime import UTC, datetime

from deployctl.engine.run.coordinator import new_run


def test_runs_of_one_second_come_in_their_order() -> None:
    """The newest report is the last by its name."""
    times = [datetime(2026, 11, 30, 4, 15, 11, part, UTC) for part in (0, 7, 900, 70_000, 999_999)]
    for _ in range(20):
        ids = [new_run(time) for time in times]
        assert ids == sorted(ids) and {len(run) for run in ids} == {
            len("20261130T041511Z-d55a3a1f0")
        }
