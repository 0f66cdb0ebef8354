"""A lower bound of what the GPUs must hold: "too big" is sure, anything else is not claimed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.serving.fit import Loads, cache_bytes, fit

GIB = 1 << 30
# Qwen3-8B's shape.
DENSE = {
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
}
TOKENS = 32768


@pytest.mark.parametrize(
    ("config", "element", "expected"),
    [
        (DENSE, 2, 2 * 36 * 8 * 128 * TOKENS * 2),
        (DENSE, 1, 2 * 36 * 8 * 128 * TOKENS),
        ({"text_config": DENSE}, 2, 2 * 36 * 8 * 128 * TOKENS * 2),
        # Three layers of four are linear attention and keep no such cache.
        (
            {**DENSE, "layer_types": ["linear_attention"] * 27 + ["full_attention"] * 9},
            2,
            2 * 9 * 8 * 128 * TOKENS * 2,
        ),
        # Sliding layers keep their window.
        (
            {
                **DENSE,
                "num_hidden_layers": 2,
                "layer_types": ["sliding_attention", "full_attention"],
                "sliding_window": 2048,
            },
            2,
            2 * 8 * 128 * (2048 + TOKENS) * 2,
        ),
        ({**DENSE, "kv_lora_rank": 512}, 2, None),
        ({}, 2, None),
    ],
)
def test_cache_of_one_request(config: dict[str, Any], element: int, expected: int | None) -> None:
    assert cache_bytes(config, TOKENS, element) == expected


@given(
    key=st.sampled_from([*DENSE, "layer_types", "sliding_window", "text_config"]),
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=2)
    | st.lists(st.lists(st.integers()) | st.text(max_size=2), max_size=2),
)
def test_any_value_gives_a_count_or_unknown(key: str, value: Any) -> None:
    found = cache_bytes({**DENSE, key: value}, TOKENS, 2)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("weights", "totals", "parallel", "utilization", "too_big"),
    [
        (16, [24_564], 1, None, False),
        (54, [24_564], 1, None, True),
        (54, [24_564, 24_564], 2, None, True),
        (54, [97_887], 1, None, False),
        (54, [97_887], 1, 0.5, True),
        (54, [49_140, 49_140], 2, 0.9, False),
    ],
)
def test_weights_and_cache_against_the_smallest_gpu(
    weights: int, totals: list[int], parallel: int, utilization: float | None, too_big: bool
) -> None:
    bound = fit(
        Loads(weights * GIB, DENSE),
        totals,
        parallel=parallel,
        utilization=utilization,
        tokens=8192,
        cache_type=None,
    )
    assert bound.too_big is too_big
    assert f"each of {parallel} GPUs" in bound.sentence()


def test_an_unknown_cache_counts_nothing_and_says_so() -> None:
    bound = fit(
        Loads(GIB, {"kv_lora_rank": 512, "num_hidden_layers": 2, "num_attention_heads": 2}),
        [24_564],
        parallel=1,
        utilization=None,
        tokens=1024,
        cache_type=None,
    )
    assert bound.cache is None and not bound.too_big
    assert "unknown MiB for the KV cache" in bound.sentence()


def test_the_drafter_counts_too() -> None:
    loads = Loads(10 * GIB, DENSE, 10 * GIB, {**DENSE, "num_hidden_layers": 5})
    bound = fit(loads, [24_564], parallel=1, utilization=None, tokens=1024, cache_type="fp8")
    assert bound.weights == 20 * 1024
    assert bound.cache == 2 * 41 * 8 * 128 * 1024 / (1 << 20)
