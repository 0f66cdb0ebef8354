"""Whether weights and one request's KV cache can fit on the GPUs at all: a lower bound.

What is counted is certain to be needed; activations, graphs and vLLM's own are not counted. So "too
big" is sure, and "fits" is only "not known to be too big".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters.fields import whole

MIB = 1 << 20
UTILIZATION = 0.9
"""The least of vLLM's defaults of --gpu-memory-utilization (0.92 since 0.20)."""
CONTEXT = 1024
"""MiB left for CUDA itself where a share is advised."""
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


@dataclass(frozen=True)
class Share:
    """What vLLM takes of one GPU's memory at its start, against the most that can be free: MiB.

    A lower bound as well: its own CUDA context, which counts against it, is not counted.
    """

    total: int
    free: int
    utilization: float | None = None

    @property
    def wanted(self) -> float:
        return self.total * (self.utilization or UTILIZATION)

    @property
    def too_much(self) -> bool:
        return self.wanted > self.free

    def sentence(self) -> str:
        best = max(0, (self.free - CONTEXT) * 100 // self.total) / 100
        return (
            f"vLLM wants {self.utilization or UTILIZATION:g} of {self.total} MiB and at most "
            f"{self.free} MiB can be free: set serve.gpu_memory_utilization to {best:g} or less"
        )


def cache_bytes(config: Mapping[str, Any], tokens: int, element: int) -> int | None:
    """KV cache of one request: 2 · KV heads · head size · tokens · bytes, over attention layers.

    Sliding layers keep their window; layers without a cache of this kind (linear attention) count
    nothing. None for models that keep something else (multi-head latent attention), and for a
    config that does not say it, or has another value than a count.
    """
    nested = config.get("text_config")
    body = nested if isinstance(nested, Mapping) else config
    attention, layers = _count(body, "num_attention_heads"), _count(body, "num_hidden_layers")
    heads = _count(body, "num_key_value_heads") or attention
    size = _count(body, "head_dim")
    if size is None and attention is not None:
        size = (_count(body, "hidden_size") or 0) // attention
    if not heads or not layers or size is None or "kv_lora_rank" in body:
        return None
    window = _count(body, "sliding_window") or tokens
    kept = {"full_attention": tokens, "sliding_attention": min(tokens, window)}
    types = body.get("layer_types")
    if types:
        if not isinstance(types, list) or not all(isinstance(kind, str) for kind in types):
            return None
        total = sum(kept.get(kind, 0) for kind in types)
    else:
        total = layers * tokens
    return 2 * heads * size * total * element


def _count(body: Mapping[str, Any], key: str) -> int | None:
    value = body.get(key)
    return value if whole(value, 1) else None


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
    length = tokens or _count(loads.target, "max_position_embeddings") or 0
    parts = [cache_bytes(config, length, element) for config in (loads.target, loads.drafter or {})]
    own = parts[0]
    cache = None if own is None else (own + (parts[1] or 0)) / parallel / MIB
    return Fit(
        weights=(loads.target_bytes + loads.drafter_bytes) / parallel / MIB,
        cache=cache,
        offered=min(totals) * (utilization or UTILIZATION),
        parallel=parallel,
    )
