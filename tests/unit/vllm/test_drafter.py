"""The wanted config: written where a key lives, in the file's own dialect, nothing else touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployctl.vllm.drafters.drafter import (
    ChangedKey,
    DrafterConfigError,
    config_changes,
    desired,
    dialect,
    differences,
    homes,
)

CONFIGS = Path(__file__).parents[2] / "cases" / "configs"
QWEN3_4B = "qwen3-4b-dflash-b16.derived.config.json"
QWEN35_122B = "qwen3.5-122b-a10b-dflash.trimmed.config.json"
MIMO = "mimo-v2.5-pro-dflash.config.json"
SPECULATORS: dict[str, Any] = {
    "architectures": ["DFlashSpeculator"],
    "speculators_model_type": "dflash",
    "aux_hidden_state_layer_ids": [2, 17, 32, 47, 62],
    "mask_token_id": 248070,
    "block_size": 16,
    "transformer_layer_config": {"hidden_size": 5120, "num_hidden_layers": 5},
}


def text(name: str) -> str:
    return (CONFIGS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        (QWEN3_4B, ["block_size"]),
        (QWEN35_122B, ["dflash_config.block_size"]),
        (MIMO, ["block_size", "dflash_config.block_size"]),
    ],
)
@pytest.mark.parametrize("asked", ["block_size", "dflash_config.block_size"])
def test_a_key_is_written_where_it_lives(name: str, places: list[str], asked: str) -> None:
    """Case 6."""
    before = json.loads(text(name))
    made = desired(text(name), {asked: 4})
    assert [c.key for c in made.changed] == places
    after = made.config
    for place in places:
        top, _, leaf = place.rpartition(".")
        assert (after[top] if top else after)[leaf] == 4
    assert after.keys() == before.keys()
    assert after["dflash_config"].keys() == before["dflash_config"].keys()
    # A second time changes nothing, not a byte.
    assert desired(made.text, {asked: 4}).text == made.text
    assert desired(made.text, {asked: 4}).changed == ()


def test_every_other_byte_stays() -> None:
    upstream = text(MIMO)
    made = desired(upstream, {"dflash_config.mask_token_id": 7})
    assert made.text == upstream.replace("151669", "7")


def test_a_mask_token_that_is_nowhere_goes_where_vllm_reads_it() -> None:
    config = {"dflash_config": {"target_layer_ids": [1, 2]}}
    assert homes(config, "mask_token_id") == ["dflash_config.mask_token_id"]
    made = desired(json.dumps(config), {"mask_token_id": 5})
    assert made.config == {"dflash_config": {"target_layer_ids": [1, 2], "mask_token_id": 5}}


def test_dialects_are_told_apart_and_never_mixed() -> None:
    assert dialect(json.loads(text(QWEN3_4B))) == "z-lab"
    assert dialect(SPECULATORS) == "speculators"
    assert dialect({"architectures": ["LlamaForCausalLMEagle3"]}) == "none"
    with pytest.raises(DrafterConfigError, match="one higher"):
        desired(json.dumps(SPECULATORS), {"dflash_config.target_layer_ids": [1, 16, 31, 46, 61]})
    with pytest.raises(DrafterConfigError, match="one lower"):
        desired(text(QWEN3_4B), {"aux_hidden_state_layer_ids": [2, 10, 18, 26, 34]})


def test_speculators_own_key_may_be_set() -> None:
    made = desired(json.dumps(SPECULATORS), {"aux_hidden_state_layer_ids": [3, 17, 32, 47, 62]})
    assert made.config["aux_hidden_state_layer_ids"] == [3, 17, 32, 47, 62]


def test_a_key_of_speculators_model_is_written_one_level_down() -> None:
    assert homes(SPECULATORS, "hidden_size") == ["transformer_layer_config.hidden_size"]
    assert homes(SPECULATORS, "block_size") == ["block_size"]
    made = desired(json.dumps(SPECULATORS), {"num_hidden_layers": 6})
    assert made.config["transformer_layer_config"]["num_hidden_layers"] == 6
    assert made.config.keys() == SPECULATORS.keys()


def test_what_is_no_object_is_refused() -> None:
    for bad in ("", "[]", "{", "17"):
        with pytest.raises(DrafterConfigError):
            desired(bad, {"block_size": 4})
    with pytest.raises(DrafterConfigError, match="block_size"):
        desired('{"block_size": 4}', {"block_size.inner": 4})


def test_differences_name_the_wrong_keys_of_a_config_in_use() -> None:
    stale = {"dflash_config": {"mask_token_id": 0, "target_layer_ids": [0, 2, 4]}}
    wanted = {"dflash_config.mask_token_id": 3, "dflash_config": {"target_layer_ids": [1, 3, 5]}}
    assert differences(stale, wanted) == [
        {"key": "dflash_config.mask_token_id", "actual": 0, "wanted": 3},
        {"key": "dflash_config.target_layer_ids", "actual": [0, 2, 4], "wanted": [1, 3, 5]},
    ]
    right = {"dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]}}
    assert differences(right, wanted) == []
    assert differences({}, {"use_sliding_window": True}) == [
        {"key": "use_sliding_window", "actual": None, "wanted": True}
    ]


def test_true_is_not_one() -> None:
    assert differences({"use_sliding_window": 1}, {"use_sliding_window": True})
    assert not differences({"rope_theta": 1000000}, {"rope_theta": 1e6})


def test_changes_of_a_whole_config() -> None:
    assert config_changes({"a": 1, "b": {"c": 2}, "d": 3}, {"a": 1, "b": {"c": 4}, "e": 5}) == [
        ChangedKey("b.c", 2, 4),
        ChangedKey("e", None, 5),
        ChangedKey("d", 3, None),
    ]


def test_a_key_that_is_wanted_twice_with_two_values_is_refused() -> None:
    text = '{"dflash_config": {"block_size": 8}}'
    with pytest.raises(DrafterConfigError, match="give it once"):
        desired(text, {"block_size": 4, "dflash_config": {"block_size": 5}})
    made = desired(text, {"block_size": 4, "dflash_config": {"block_size": 4}})
    assert [change.key for change in made.changed] == ["dflash_config.block_size"]
