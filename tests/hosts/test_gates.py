"""Gates on a host that serves: when they run again, what they compare with, what they find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployctl.engine.ledger.record import RunRecord
from tests.hosts.served.host import STALE, ServedHost

NO_DRAFTER_STEP = frozenset({"drafter"})


def step(record: RunRecord, name: str) -> Any:
    return next(one for one in record.hosts[0].steps if one.step == name)


def playbook(folder: Path, *steps: str) -> str:
    path = folder / "measure.yaml"
    path.write_text(f"name: measure\nsteps: [{', '.join(steps)}]\n")
    return str(path)


def test_a_gate_that_asks_for_something_else_runs_again_alone(served: ServedHost) -> None:
    first = served.up()
    again = served.up("acceptance.min_length=5")
    assert again.hosts[0].release == first.hosts[0].release
    assert step(again, "smoke").status == "unchanged"
    assert step(again, "acceptance").status == "passed"
    assert step(again, "acceptance").evidence["gate"]["floor"] == 5
    assert step(served.up("acceptance.min_length=5"), "acceptance").status == "unchanged"


def test_gates_run_again_where_asked_for(served: ServedHost) -> None:
    served.up()
    again = served.up(check_gates=True)
    assert {step(again, name).status for name in ("smoke", "acceptance")} == {"passed"}
    assert again.outcome == "passed"


def test_a_wrong_config_is_named_and_confirmed_as_the_cause(served: ServedHost) -> None:
    failed = served.up(skip=NO_DRAFTER_STEP)
    assert failed.exit_code == 9
    found = step(failed, "acceptance")
    assert found.error.why == (
        "the drafter's config.json on the host is not what the profile wants: "
        "dflash_config.mask_token_id is 0, wanted 3; "
        "dflash_config.target_layer_ids is [0, 2, 4], wanted [1, 3, 5]"
    )
    causes = [(one["cause"], one["result"]) for one in found.evidence["diagnosis"]]
    assert causes[:2] == [
        ("wrong mask_token_id", "confirmed"),
        ("wrong target_layer_ids", "confirmed"),
    ]
    assert ("the target's layers are counted one off", "ruled out") in causes


def test_the_last_good_release_is_a_floor_within_its_tolerance(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    worse = served.up(STALE, "acceptance.min_length=1", "acceptance.tolerance=0.5")
    assert worse.outcome == "rolled-back"
    found = step(worse, "acceptance")
    assert found.evidence["last_good"]["release"] == good
    assert found.evidence["gate"]["floor"] == 7.5
    assert "below the floor of 7.5" in found.error.what
    assert found.error.next.endswith("deployctl report --open")


def test_other_prompts_are_not_compared_with(served: ServedHost) -> None:
    served.up()
    record = served.up("acceptance.prompts=math", "acceptance.tolerance=0.5")
    assert step(record, "acceptance").evidence["last_good"] is None


def test_too_few_drafts_are_undecided(served: ServedHost) -> None:
    served.up()
    record = served.up("acceptance.min_drafts=100000")
    assert step(record, "acceptance").status == "unknown"
    assert record.exit_code in (10, 11)
    assert "too few" in str(step(record, "acceptance").error)


def units(served: ServedHost) -> list[str]:
    """What the profile has on the host."""
    assert served.ask("releases.profiles") == ["stand"]
    return [*served.ask("units.listing", profile="stand")]


def test_answers_with_and_without_speculation(served: ServedHost, tmp_path: Path) -> None:
    served.up()
    record = served.up(playbook=playbook(tmp_path, "lossless"), check_gates=True)
    found = step(record, "lossless")
    assert found.status == "passed", found.error
    assert (found.evidence["verdict"], found.evidence["compared"]) == ("pass", 8)
    assert units(served) == ["server"], "the second server is gone without trace"
    assert served.unit()["state"] == "running"


def test_a_bench_with_and_without_speculation(served: ServedHost, tmp_path: Path) -> None:
    served.up()
    options = {"bench": {"concurrencies": [1, 2], "requests": 4, "compare": "plain"}}
    record = served.up(playbook=playbook(tmp_path, "bench"), check_gates=True, steps=options)
    found = step(record, "bench").evidence
    assert [level["concurrency"] for level in found["levels"]] == [1, 2]
    assert found["levels"][0]["mean_acceptance_length"] == 8
    assert found["plain"][0]["mean_acceptance_length"] is None
    assert [one["concurrency"] for one in found["speed_up"]] == [1, 2]
    assert units(served) == ["server"]


def test_a_second_server_that_does_not_start_is_undecided(
    served: ServedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.up()
    launch = served.root / "profiles/stand/units/server/current/launch.json"
    launch.write_text(launch.read_text().replace('"env": {', '"env": {"STAND_IN_FAULT": "start",'))
    record = served.up(playbook=playbook(tmp_path, "lossless"), check_gates=True)
    found = step(record, "lossless")
    assert found.status == "unknown"
    assert "did not start" in found.error.what
    assert units(served) == ["server"]
