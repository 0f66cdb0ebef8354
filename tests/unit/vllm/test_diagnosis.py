"""Signatures as data: a shape, its causes, and what a check says of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from deployctl.vllm.acceptance.diagnosis import SIGNATURES, Facts, diagnose
from deployctl.vllm.serving.serving_log import backend, runner

STALE = Facts(
    # Measured: the tiny pair with the stale config.
    per_position=(0.110, 0.026, 0.010, 0.002, 0.001, 0.0, 0.0),
    length=1.15,
    expected=7.79,
    window=0,
    thinking=False,
    differences=(
        {"key": "dflash_config.mask_token_id", "actual": 0, "wanted": 3},
        {"key": "dflash_config.target_layer_ids", "actual": [0, 2, 4], "wanted": [1, 3, 5]},
    ),
    fixes={"dflash-layer-offset": "present", "dflash-lm-head": "present"},
    runner="V1",
)
RIGHT = Facts((0.99, 0.98, 0.97, 0.97), 7.8, 7.79, differences=(), fixes=STALE.fixes)


def causes(facts: Facts, result: str) -> list[str]:
    return [one["cause"] for one in diagnose(facts) if one["result"] == result]


def test_a_stale_config_is_confirmed_and_nothing_is_guessed_beside() -> None:
    assert causes(STALE, "confirmed") == ["wrong mask_token_id", "wrong target_layer_ids"]
    assert causes(STALE, "unknown") == []
    assert "the target's layers are counted one off" in causes(STALE, "ruled out")


def test_the_reason_names_the_key_and_both_values() -> None:
    first = diagnose(STALE)[0]
    assert first["signature"] == "low from the first position"
    assert first["reason"] == "dflash_config.mask_token_id is 0, wanted 3"


def test_an_absent_fix_is_confirmed() -> None:
    """vLLM 0.20.1 as published, with a right config."""
    facts = replace(
        STALE,
        differences=(),
        fixes={"dflash-layer-offset": "absent", "dflash-sliding-window": "absent"},
        window=64,
        longest_prompt=400,
    )
    assert causes(facts, "confirmed") == [
        "the target's layers are counted one off",
        "sliding-window layers run as full attention",
    ]


def test_the_window_is_ruled_out_where_no_prompt_was_longer() -> None:
    facts = replace(STALE, differences=(), fixes={"dflash-sliding-window": "absent"}, window=2048)
    facts = replace(facts, longest_prompt=300)
    assert "sliding-window layers run as full attention" in causes(facts, "ruled out")


def test_positions_that_vanish_past_the_window() -> None:
    facts = Facts(
        (0.62, 0.41, 0.22, 0.08, 0.0, 0.0, 0.0),
        2.3,
        window=2048,
        longest_prompt=3000,
        fixes={"dflash-sliding-window": "v2-only"},
        runner="V1",
    )
    assert causes(facts, "confirmed") == [
        "sliding-window layers run as full attention",
        "the wrong model runner",
    ]


@pytest.mark.parametrize(
    ("facts", "result", "reason"),
    [
        ({"window": 0}, "ruled out", "no layer of the drafter"),
        ({"window": 2048, "longest_prompt": 300}, "ruled out", "no prompt was longer"),
        ({"window": None}, "unknown", "is not known"),
        ({"window": 64, "longest_prompt": 300}, "confirmed", "only on the V2"),
        ({"window": 64, "longest_prompt": 300, "method": "eagle3"}, "ruled out", "concerns DFlash"),
        ({"window": 64, "longest_prompt": 300, "runner": "V2"}, "ruled out", "is present"),
    ],
)
def test_a_fix_confirms_a_cause_only_where_it_concerns_the_drafter(
    facts: dict[str, Any], result: str, reason: str
) -> None:
    """README's example: V1 on a CPU, and a drafter whose layers all have full attention."""
    known = replace(STALE, differences=(), fixes={"dflash-sliding-window": "v2-only"})
    found = {one["cause"]: one for one in diagnose(replace(known, **facts))}
    window = found["sliding-window layers run as full attention"]
    assert window["result"] == result
    assert found["the wrong model runner"]["result"] == result
    if result != "confirmed":
        assert reason in window["reason"]


@pytest.mark.parametrize(
    ("runner", "multimodal", "result"),
    [
        ("V1", True, "ruled out"),
        ("V2", False, "ruled out"),
        ("V2", None, "unknown"),
        ("V2", True, "confirmed"),
    ],
)
def test_the_lm_head_matters_for_multimodal_targets_on_the_v2_runner(
    runner: Literal["V1", "V2"], multimodal: bool | None, result: str
) -> None:
    facts = replace(STALE, differences=(), fixes={"dflash-lm-head": "absent"})
    facts = replace(facts, runner=runner, multimodal=multimodal)
    assert "the drafter does not share the target's lm_head" in {
        one["cause"] for one in diagnose(facts) if one["result"] == result
    }


def test_one_layer_off_shows_against_what_the_pair_reaches() -> None:
    """4.16 measured on 0.20.1 where 7.8 is right: above a floor of 2, and still wrong."""
    facts = Facts(
        (0.9, 0.75, 0.6, 0.45, 0.3, 0.15, 0.05),
        4.16,
        expected=7.8,
        differences=(),
        fixes={"dflash-layer-offset": "absent"},
    )
    assert causes(facts, "confirmed") == ["the target's layers are counted one off"]


def test_unchecked_causes_are_unknown_and_ranked() -> None:
    facts = Facts((0.1, 0.0), 1.1)
    found = diagnose(facts)
    assert {one["result"] for one in found} == {"unknown"}
    assert found[0]["cause"] == "wrong mask_token_id"


def test_an_unpinned_thinking_mode_is_said() -> None:
    facts = replace(RIGHT, length=3.9, per_position=(0.6, 0.4, 0.3, 0.2), thinking=None)
    (one,) = [one for one in diagnose(facts) if "thinking" in one["cause"]]
    assert one["result"] == "unknown"
    assert "acceptance.thinking" in one["reason"]


def test_a_fall_after_the_first_requests() -> None:
    facts = replace(RIGHT, early=7.0, late=3.0)
    assert causes(facts, "confirmed")[0].startswith("too few drafts")


def test_flashinfer_on_blackwell() -> None:
    facts = replace(STALE, differences=(), backend="FLASHINFER", capability=12.0)
    assert "FlashInfer on Blackwell" in causes(facts, "confirmed")
    older = replace(facts, capability=9.0)
    assert "FlashInfer on Blackwell" in causes(older, "ruled out")


def test_a_cold_prefix_cache_is_not_a_matter_of_acceptance() -> None:
    facts = replace(
        RIGHT, prefix_hits=0, longest_prompt=3000, fixes={"dflash-cache-drop": "absent"}
    )
    (one,) = [one for one in diagnose(facts) if one["signature"] == "no prefix-cache hits"]
    assert (one["result"], "not acceptance" in one["reason"]) == ("confirmed", True)


def test_a_good_acceptance_has_no_signature() -> None:
    assert diagnose(RIGHT) == []


def test_every_signature_has_causes_and_a_shape() -> None:
    assert all(one.causes and one.shape for one in SIGNATURES)
    assert len({one.name for one in SIGNATURES}) == len(SIGNATURES)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("WARNING [vllm.py:725] Model Runner V2 requires Triton; using the V1 model runner", "V1"),
        ("INFO Using auxiliary layers from speculative config: (2, 17, 32, 47, 62)", "V1"),
        ("INFO Using V2 Model Runner", "V2"),
        ("INFO Using Eagle3 auxiliary layers from config: (2, 17, 32)", "V2"),
        ("INFO something else", None),
    ],
)
def test_the_runner_from_the_log(line: str, expected: str | None) -> None:
    assert runner(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Using FLASH_ATTN attention backend out of potential backends", "FLASH_ATTN"),
        ("Using AttentionBackendEnum.FLASHINFER backend.", "FLASHINFER"),
        ("Using Flash Attention backend on V1 engine.", "Flash Attention"),
        ("nothing", None),
    ],
)
def test_the_backend_from_the_log(line: str, expected: str | None) -> None:
    assert backend(line) == expected
