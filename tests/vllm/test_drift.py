"""The drafter's config changed behind deployctl's back: seen, refused at launch, mended by up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vllm.conftest import Demo

pytestmark = pytest.mark.vllm


def config_of(demo: Demo) -> Path:
    return demo.root / "profiles/demo/units/server/current" / "drafter" / "config.json"


def test_drift_is_seen_refused_and_mended(deployed: Demo) -> None:
    path = config_of(deployed)
    proven = path.read_bytes()
    assert deployed.run("drafter", "show").out.encode() == proven
    assert deployed.run("drafter", "diff").code == 0
    set_back = ["dflash_config.mask_token_id=0", "dflash_config.target_layer_ids=[0,2,4]"]
    assert deployed.run("drafter", "set", *set_back).code == 0
    assert path.read_bytes() != proven

    status = deployed.run("status", "--json").document["hosts"][0]
    assert status["drift"] is True
    smoke = deployed.run("smoke", "--json")
    assert smoke.code == 0, "the process that answers has read the right one"
    assert smoke.step("smoke")["evidence"]["drafter_config"]["drifted"] is True
    assert f"{path.resolve()} drifted" in smoke.err
    refused = deployed.run("drafter", "set", "dflash_config.target_layer_ids=[1,3,8]")
    assert refused.code == 2 and "layer_ids_range" in refused.err
    diff = deployed.run("drafter", "diff", "--json")
    assert diff.code == 6
    assert [d["key"] for d in diff.document["configs"][0]["differences"]] == [
        "dflash_config.mask_token_id",
        "dflash_config.target_layer_ids",
    ]

    assert deployed.run("down", "--json").code == 0
    launch = deployed.run("launch", "--json")
    assert launch.code == 7
    assert "drifted" in json.dumps(launch.step("launch")["error"])

    mended = deployed.up()
    assert mended.code == 0, mended.err
    assert mended.step("drafter")["status"] == "changed"
    assert mended.step("ready")["evidence"]["drafter"]["layers"] == {
        "loaded": [2, 4, 6],
        "wanted": [2, 4, 6],
    }
    assert path.read_bytes() == proven
