"""The main job on a real vLLM: deployed, proven, idle when nothing changes, caught when wrong."""

from __future__ import annotations

import pytest

from tests.hosts.lab.ports import free_port
from tests.hosts.served.client import PollingClient

from .conftest import Demo

pytestmark = pytest.mark.vllm


def test_up_deploys_and_proves(deployed: Demo) -> None:
    assert deployed.first is not None
    document = deployed.first.document
    assert document["schema"] == "deployctl.report/1"
    assert (document["outcome"], document["exit_code"]) == ("deployed", 0)
    drafter = deployed.first.step("drafter")
    assert [(c["key"], c["old"], c["new"]) for c in drafter["evidence"]["changed"]] == [
        ("dflash_config.mask_token_id", 0, 3),
        ("dflash_config.target_layer_ids", [0, 2, 4], [1, 3, 5]),
    ]
    smoke = deployed.first.step("smoke")
    assert "def quicksort" in smoke["evidence"]["checks"][0]["result"]["content"]
    measured = deployed.first.step("acceptance")["evidence"]
    assert measured["verdict"] == "pass"
    assert 7.4 <= measured["mean_acceptance_length"] <= 8.0
    assert len(measured["per_position"]) == 7
    assert measured["mean_acceptance_length"] == pytest.approx(
        1 + measured["accepted_tokens"] / measured["drafts"]
    )
    reports = list((deployed.state / "deployctl" / "reports").glob("*.json"))
    assert document["run"] in {path.stem for path in reports}


def test_a_second_up_changes_nothing_in_one_round_trip(deployed: Demo) -> None:
    assert deployed.first is not None
    again = deployed.up()
    assert again.code == 0
    document = again.document
    assert document["seconds"] < deployed.first.document["seconds"] / 2
    assert document["outcome"] == "unchanged"
    assert {step["status"] for step in document["hosts"][0]["steps"]} == {"unchanged"}
    assert document["hosts"][0]["round_trips"] == 1


def test_status_and_smoke_of_what_serves(deployed: Demo) -> None:
    status = deployed.run("status", "--json")
    assert status.code == 0
    host = status.document["hosts"][0]
    assert (host["healthy"], host["drift"]) == (True, False)
    smoke = deployed.run("smoke", "--json")
    assert smoke.code == 0, smoke.err
    assert smoke.step("smoke")["status"] == "passed"


def test_the_story_without_the_drafter_step(deployed: Demo) -> None:
    """The wrong config stays, acceptance says so, and the good release comes back."""
    assert deployed.first is not None
    good = deployed.first.document["hosts"][0]["release"]
    with PollingClient(deployed.port) as client:
        story = deployed.up("--skip", "drafter")
    assert story.code == 10, story.err
    document = story.document
    # Served without a gap but for the switch and the way back, and both are in the report.
    gaps = document["hosts"][0]["gaps"]
    outages = [gap for gap in client.gaps if gap]  # not a single answer that came late
    assert len(outages) == len(gaps) == 2
    assert all(seen <= told for seen, told in zip(outages, gaps, strict=True))
    assert document["outcome"] == "rolled-back"
    measured = story.step("acceptance")
    assert measured["status"] == "failed"
    assert measured["evidence"]["mean_acceptance_length"] < 1.6
    why = measured["error"]["why"]
    assert "dflash_config.mask_token_id is 0, wanted 3" in why
    assert "dflash_config.target_layer_ids is [0, 2, 4], wanted [1, 3, 5]" in why
    status = deployed.run("status", "--json").document["hosts"][0]
    assert (status["current"], status["serving"], status["healthy"]) == (good, good, True)
    assert document["hosts"][0]["restored"] is True


@pytest.mark.slow
def test_the_story_on_a_fresh_host_exits_9(
    deployed: Demo, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With no good release to go back to, acceptance's own exit code is the run's."""
    place = tmp_path_factory.mktemp("fresh")
    root = place / "root"
    root.mkdir(mode=0o700)
    # The build is not what this is about: the proven environment is lent.
    (root / "environments").symlink_to(deployed.root / "environments")
    fresh = Demo(root, free_port(), place / "state")
    beside = deployed.run("status", "--json").document["hosts"][0]["pid"]
    try:
        story = fresh.up("--skip", "drafter")
        assert story.code == 9, story.err
        assert story.document["outcome"] == "failed"
        assert "mask_token_id" in story.step("acceptance")["error"]["why"]
        after = deployed.run("status", "--json").document["hosts"][0]["pid"]
        assert after == beside, "a server of another root is a stranger"
    finally:
        assert fresh.run("down").code == 0
