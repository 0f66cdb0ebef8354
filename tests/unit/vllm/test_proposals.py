"""What is proposed for a model on GPUs, from configs as published models have them."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.vllm.serving.fit import Loads
from deployctl.vllm.serving.proposals import Memory, draft_tokens, proposals

GIB = 1 << 30
SMALL = {
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 36,
    "head_dim": 128,
    "max_position_embeddings": 40960,
}
LARGE = {
    "text_config": {
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "num_hidden_layers": 80,
        "head_dim": 128,
        "max_position_embeddings": 131072,
    }
}
H200, H100, CARD = 143771, 81559, 24564


@pytest.mark.parametrize(
    ("config", "size", "gpus", "expected"),
    [
        (SMALL, 16, [Memory(H200, H200)], {"tensor_parallel_size": 1, "max_model_len": 40960}),
        (SMALL, 16, [Memory(CARD, CARD)] * 2, {"tensor_parallel_size": 2, "max_model_len": 40960}),
        (
            LARGE,
            141,
            [Memory(H100, H100)] * 8,
            {"tensor_parallel_size": 4, "max_model_len": 131072},
        ),
        (LARGE, 141, [Memory(H100)] * 2, {"tensor_parallel_size": 2, "max_model_len": 6144}),
        (
            SMALL,
            16,
            [Memory(H200, H200 // 2)],
            {"gpu_memory_utilization": 0.49, "tensor_parallel_size": 1, "max_model_len": 40960},
        ),
        (SMALL, 16, [], {"max_model_len": 40960}),
        ({}, 16, [Memory(H200, H200)], {"tensor_parallel_size": 1}),
    ],
)
def test_a_model_on_gpus(
    config: dict[str, Any], size: int, gpus: list[Memory], expected: dict[str, float]
) -> None:
    made = list(proposals(Loads(size * GIB, config), gpus))
    assert {one.key: one.value for one in made} == expected
    assert all(one.reason for one in made)


def test_a_context_that_does_not_fit_is_shortened() -> None:
    made = {one.key: one for one in proposals(Loads(17 * GIB, SMALL), [Memory(CARD, CARD)])}
    context = made["max_model_len"]
    assert 8192 < context.value < 40960
    assert context.value % 1024 == 0
    assert "40960" in context.reason


@pytest.mark.parametrize(
    ("method", "config", "value", "words"),
    [
        ("dflash", {"block_size": 16}, 15, "block_size 16 - 1"),
        ("dflash", {"dflash_config": {"block_size": 8}}, 7, "block_size 8 - 1"),
        ("eagle3", {}, 3, "usual for eagle3"),
        ("medusa", {"medusa_num_heads": 5}, 5, "5 heads"),
        ("mlp_speculator", {"n_predict": 4}, 4, "4 predictions"),
        ("qwen3_next_mtp", {}, 1, "usual for"),
        ("ngram", None, 4, "usual for ngram"),
        ("dflash", {"block_size": "x"}, 1, "usual for dflash"),
    ],
)
def test_draft_tokens(method: str, config: dict[str, Any] | None, value: int, words: str) -> None:
    made = draft_tokens(method, config)
    assert made.value == value
    assert words in made.reason
