"""tune on a real vLLM: which of 1, 3, 5 and 7 draft tokens is fastest for the tiny pair."""

from __future__ import annotations

import pytest

from .conftest import Demo

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def test_the_best_of_four_and_by_how_much(deployed: Demo) -> None:
    """The pair accepts 6.8 of 7 tokens (models/README.md), so more tokens are faster."""
    before = deployed.run("status", "--json").document["hosts"][0]
    done = deployed.run(
        *("tune", "--json", "--values", "0,1,3,5,7", "--concurrency", "1", "--rounds", "24")
    )
    print(done.err)
    assert done.code == 0, done.err
    found = done.step("tune")["evidence"]
    print(found)
    for level in found["levels"]:
        assert level["best"] == 7 and level["verdict"] == "keep"
        assert level["second"] == 5 and level["ahead"]["share"] > 0
        speeds = {one["value"]: one["tokens_per_second"] for one in level["candidates"]}
        assert speeds[7] > speeds[3] > speeds[1]
    alone = found["levels"][0]
    assert alone["ahead"]["interval"]["low"] > 0
    stopped = {one["value"] for one in alone["candidates"] if one["stopped_early"]}
    assert {0, 1} <= stopped, "what cannot win is not measured to the end"
    lengths = {one["value"]: one["mean_acceptance_length"] for one in alone["candidates"]}
    assert lengths[7] > 6 and lengths[1] <= 2
    assert found["propose"] == [] and found["failed"] == []
    after = deployed.run("status", "--json").document["hosts"][0]
    assert after["unit"]["pid"] == before["unit"]["pid"]
