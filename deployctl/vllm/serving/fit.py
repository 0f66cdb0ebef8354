"""Whether weights and one request's KV cache can fit on the GPUs at all: a lower bound.

What is counted is certain to be needed; activations, graphs and vLLM's own are not counted. So "too
big" is sure, and "fits" is only "not known to be too big".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
UTILIZATION = 0.9
"""vLLM's default of --gpu-memory-utilization."""
ELEMENT = {"fp8": 1, "float32": 4}
"""Bytes of one KV element by the beginning of its type's name; all others have 2."""
DEFIES = ("cpu-offload-gb", "data-parallel-size", "kv-offloading-size", "quantization")
"""Options of `vllm serve` with which weights do not lie on the GPUs as this counts them."""


@dataclass(frozen=True)
class Loads:
    """What is to be loaded: sizes of the weights' files in bytes, and the models' configs."""

    target_bytes: int
    target: Mapping[str, Any]
    drafter_bytes: int = 0
    drafter: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Fit:
    """MiB that every GPU needs at least, and what the smallest offers; None is unknown."""

    weights: float
    cache: float | None
    offered: float
    parallel: int

    @property
    def too_big(self) -> bool:
        return self.weights + (self.cache or 0.0) > self.offered

    def sentence(self) -> str:
        cache = "unknown" if self.cache is None else f"{self.cache:.0f}"
        return (
            f"each of {self.parallel} GPUs needs {self.weights:.0f} MiB for weights and "
            f"{cache} MiB for the KV cache of one request; vLLM may use {self.offered:.0f} MiB"
        )


def cache_bytes(config: Mapping[str, Any], tokens: int, element: int) -> int | None:
    """KV cache of one request: 2 · KV heads · head size · tokens · bytes, over attention layers.

    Sliding layers keep their window; layers without a cache of this kind (linear attention) count
    nothing. None for models that keep something else (multi-head latent attention).
    """
    nested = config.get("text_config")
    body = nested if isinstance(nested, Mapping) else config
    heads = body.get("num_key_value_heads") or body.get("num_attention_heads")
    layers = body.get("num_hidden_layers")
    if not heads or not layers or "kv_lora_rank" in body:
        return None
    size = body.get("head_dim") or body.get("hidden_size", 0) // body["num_attention_heads"]
    types: Sequence[str] = body.get("layer_types") or ["full_attention"] * layers
    window = body.get("sliding_window") or tokens
    kept = {"full_attention": tokens, "sliding_attention": min(tokens, window)}
    return int(sum(2 * heads * size * kept.get(kind, 0) * element for kind in types))


def fit(
    loads: Loads,
    totals: Sequence[int],
    *,
    parallel: int,
    utilization: float | None,
    tokens: int | None,
    cache_type: str | None,
) -> Fit:
    """The lower bound for `parallel` GPUs whose memory is `totals` MiB each."""
    names = [size for name, size in ELEMENT.items() if (cache_type or "").startswith(name)]
    element = names[0] if names else 2
    length = tokens or loads.target.get("max_position_embeddings") or 0
    parts = [cache_bytes(config, length, element) for config in (loads.target, loads.drafter or {})]
    own = parts[0]
    cache = None if own is None else (own + (parts[1] or 0)) / parallel / MIB
    return Fit(
        weights=(loads.target_bytes + loads.drafter_bytes) / parallel / MIB,
        cache=cache,
        offered=min(totals) * (utilization or UTILIZATION),
        parallel=parallel,
    )
