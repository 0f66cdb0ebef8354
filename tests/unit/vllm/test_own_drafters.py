"""Drafters that a target brings itself: MTP layers and DSpark's stages.

Field names and rules from vLLM's config/speculative.py; numbers are ours.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.drafters import methods, mtp
from deployctl.vllm.drafters.drafter_checks import check
from deployctl.vllm.drafters.drafter_verdicts import CHECKS, Circumstances

DEEPSEEK = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_nextn_predict_layers": 2,
}
QWEN = {
    "model_type": "qwen3_5_moe",
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "text_config": {"model_type": "qwen3_5_moe_text", "mtp_num_hidden_layers": 1},
}
OMNI = {
    "architectures": ["Qwen3OmniDSparkModel"],
    "block_size": 7,
    "hidden_size": 2048,
    "target_hidden_size": 2048,
    "vocab_size": 1000,
    "dflash_config": {"target_layer_ids": [1, 5, 9]},
}
THINKER = {"thinker_config": {"text_config": {"hidden_size": 2048, "num_hidden_layers": 10}}}


def verdicts(
    config: dict[str, Any], method: str, tokens: int, target: dict[str, Any] | None = None
) -> dict[str, str]:
    """By name, the worst that is said."""
    found = check(config, Circumstances(target or {}, method, tokens))
    assert {one.name for one in found} <= CHECKS
    order = ("ok", "unknown", "warning", "error")
    return {one.name: one.verdict for one in sorted(found, key=lambda c: order.index(c.verdict))}


@pytest.mark.parametrize(
    ("config", "tokens", "name", "verdict"),
    [
        (DEEPSEEK, 2, "draft_tokens", "ok"),
        (DEEPSEEK, 1, "draft_tokens", "ok"),
        (DEEPSEEK, 4, "draft_tokens", "ok"),
        (DEEPSEEK, 3, "draft_tokens", "error"),
        (DEEPSEEK, 2, "mtp_layers", "ok"),
        ({**DEEPSEEK, "num_nextn_predict_layers": 0}, 1, "mtp_layers", "error"),
        ({**DEEPSEEK, "num_nextn_predict_layers": None}, 1, "mtp_layers", "unknown"),
        ({**DEEPSEEK, "num_nextn_predict_layers": "2"}, 1, "types", "error"),
        (QWEN, 3, "mtp_layers", "ok"),
        ({"model_type": "qwen3_next"}, 3, "mtp_layers", "unknown"),
        ({"model_type": "step3p5"}, 3, "mtp_layers", "ok"),
        ({"model_type": "nemotron_h"}, 1, "mtp_layers", "error"),
        ({"model_type": "inkling_model", "mtp_config": {"num_nextn_predict_layers": 4}}, 6,
         "draft_tokens", "error"),
        ({"model_type": "inkling_model"}, 1, "mtp_layers", "error"),
        ({"model_type": "minimax_m3_mtp", "num_mtp_modules": 3}, 3, "draft_tokens", "ok"),
        ({"architectures": ["MiMoV2FlashForCausalLM"], "num_nextn_predict_layers": 3}, 5,
         "draft_tokens", "ok"),
        ({"model_type": "gemma4_assistant"}, 4, "draft_tokens", "ok"),
        ({"model_type": "deepseek_v41", "num_nextn_predict_layers": 3}, 3, "method", "error"),
        ({"model_type": "llama"}, 3, "method", "unknown"),
    ],
)  # fmt: skip
def test_mtp(config: dict[str, Any], tokens: int, name: str, verdict: str) -> None:
    assert verdicts(config, "mtp", tokens)[name] == verdict
    assert verdicts(config, "qwen3_next_mtp", tokens)[name] == verdict


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (None, "unknown"),
        ({"DeepSeekMTPModel"}, "ok"),
        ({"DeepseekV32MTPModel"}, "ok"),
        ({"DeepseekV3ForCausalLM"}, "error"),
    ],
)
def test_the_built_vllm_is_asked_for_what_it_makes(known: set[str] | None, verdict: str) -> None:
    config = {**DEEPSEEK, "model_type": "deepseek_v32"}
    found = check(config, Circumstances({}, "mtp", 2, architectures=known))
    assert [one.verdict for one in found if one.name == "architecture"] == [verdict]


@pytest.mark.parametrize(
    ("config", "target", "tokens", "name", "verdict"),
    [
        (OMNI, THINKER, 7, "draft_tokens", "ok"),
        (OMNI, THINKER, 6, "draft_tokens", "error"),
        (OMNI, THINKER, 7, "layer_ids_range", "ok"),
        (OMNI, THINKER, 7, "hidden_size", "ok"),
        ({**OMNI, "target_hidden_size": 4096}, THINKER, 7, "hidden_size", "error"),
        ({**OMNI, "dflash_config": {}}, THINKER, 7, "layer_ids", "error"),
        ({**OMNI, "dflash_config": {"target_layer_ids": [1, 10]}}, THINKER, 7,
         "layer_ids_range", "error"),
        ({**OMNI, "dspark_draft_topk": 1001}, THINKER, 7, "draft_topk", "error"),
        ({**OMNI, "dspark_draft_topk": 8}, THINKER, 7, "draft_topk", "ok"),
        ({"architectures": ["Qwen3DSparkModel"], "target_layer_ids": [1, 10]},
         {"num_hidden_layers": 10}, 7, "layer_ids_range", "warning"),
        ({"architectures": ["Gemma4DSparkModel"], "block_size": 4}, {}, 6, "draft_tokens", "error"),
        ({"architectures": ["Gemma4DSparkModel"], "dspark_draft_topk": 2}, {}, 4,
         "draft_topk", "error"),
        ({"model_type": "deepseek_v41", "dspark_block_size": 5}, {}, 5, "draft_tokens", "ok"),
        ({"model_type": "deepseek_v4"}, {}, 5, "draft_tokens", "unknown"),
        ({"speculators_model_type": "dspark"}, {}, 5, "architecture", "unknown"),
    ],
)  # fmt: skip
def test_dspark(
    config: dict[str, Any], target: dict[str, Any], tokens: int, name: str, verdict: str
) -> None:
    assert verdicts(config, "dspark", tokens, target)[name] == verdict


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (DEEPSEEK, ("mtp",)),
        ({**DEEPSEEK, "num_nextn_predict_layers": 0}, ()),
        (QWEN, ("mtp",)),
        ({**DEEPSEEK, "model_type": "deepseek_v4", "dspark_block_size": 5}, ("mtp", "dspark")),
        ({"model_type": "deepseek_v41", "num_nextn_predict_layers": 3, "dspark_block_size": 5},
         ("dspark",)),
        ({"model_type": "gemma4_assistant"}, ("mtp",)),
        (OMNI, ("dspark",)),
        ({"architectures": ["LlamaForCausalLM"]}, ()),
    ],
)  # fmt: skip
def test_the_methods_that_a_config_has_a_drafter_for(
    config: dict[str, Any], named: tuple[str, ...]
) -> None:
    assert methods.named(config) == named


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers())
KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_config",
        "text_config", "dspark_block_size", "dspark_draft_topk", "dflash_config",
        "speculators_config", "thinker_config", "vocab_size", "block_size")  # fmt: skip
KINDS: list[dict[str, Any]] = [{"model_type": name} for name in mtp.BY_TYPE]
KINDS += [{"model_type": mtp.STAGES_ONLY}, {"architectures": ["Qwen3OmniDSparkModel"]}]


@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(KEYS), VALUES | st.dictionaries(st.sampled_from(KEYS), VALUES)),
    st.sampled_from(["mtp", "dspark"]),
)
def test_no_config_breaks_a_check(kind: dict[str, Any], more: dict[str, Any], method: str) -> None:
    config = {**kind, **more}
    methods.named(config)
    check(config, Circumstances(config, method, 4))
