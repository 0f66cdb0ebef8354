"""What to begin with for a model on a host's GPUs, each value with its reason. Pure.

From the models' own configs and `fit`, which is a lower bound: what is proposed keeps room for what
that does not count, and `up` measures the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters import methods
from deployctl.vllm.drafters.fields import whole
from deployctl.vllm.serving.fit import CONTEXT, UTILIZATION, Fit, Loads, fit

ROOM = 0.8
"""Of what the lower bound leaves, the part that is given to the KV cache of one request: the rest
is for activations and graphs."""
STEP = 1024
"""Tokens: a shortened context is a multiple."""
USUAL = 32768
"""Tokens of one request for which a model should have room, where its config allows as many."""
TOKENS = {"eagle": 3, "eagle3": 3, "draft_model": 3, "ngram": 4, "suffix": 4}
"""Draft tokens that recipes of vLLM begin with."""
COUNTS = {
    "medusa": (("medusa_num_heads", "num_heads"), "heads"),
    "mlp_speculator": (("n_predict",), "predictions"),
    "mtp": (("num_nextn_predict_layers",), "MTP layers"),
}
"""Keys of a drafter's config.json that bound its tokens, and what they count."""


@dataclass(frozen=True)
class Memory:
    """One GPU's memory in MiB; `free` None where it is not known."""

    total: int
    free: int | None = None


@dataclass(frozen=True)
class Proposal:
    """A setting's value, and why."""

    key: str
    value: int | float
    reason: str


def context_length(config: Mapping[str, Any]) -> int | None:
    """Tokens that a model was made for, by its config; None where that is not named."""
    nested = config.get("text_config")
    for body in (config, nested if isinstance(nested, Mapping) else {}):
        found = body.get("max_position_embeddings")
        if isinstance(found, int) and whole(found, 1):
            return found
    return None


def proposals(loads: Loads, gpus: Sequence[Memory]) -> Iterator[Proposal]:
    """Parallelism, context and memory share; nothing where a config gives no reason for it."""
    longest = context_length(loads.target)
    if not gpus:
        if longest is not None:
            yield Proposal("max_model_len", longest, f"the model's own: {longest}")
        return
    share = _share(gpus)
    if share is not None:
        yield share
    used = share.value if share is not None else UTILIZATION
    tried = {
        n: _fit(loads, gpus, n, used, min(longest or USUAL, USUAL)) for n in _counts(loads, gpus)
    }
    enough = [n for n, found in tried.items() if _roomy(found)]
    parallel = min(enough) if enough else max(tried)
    yield Proposal("tensor_parallel_size", parallel, _parallel(tried, parallel, bool(enough)))
    if longest is not None:
        yield _context(loads, gpus, parallel, used, longest)


def _counts(loads: Loads, gpus: Sequence[Memory]) -> list[int]:
    """Numbers of GPUs over which the attention heads can be divided."""
    nested = loads.target.get("text_config")
    body = nested if isinstance(nested, Mapping) else loads.target
    heads = body.get("num_attention_heads")
    divided = heads if isinstance(heads, int) and whole(heads, 1) else 16
    powers = [n for n in (1, 2, 4, 8, 16) if n <= len(gpus)]
    return [n for n in powers if divided % n == 0] or [1]


def _fit(loads: Loads, gpus: Sequence[Memory], parallel: int, used: float, tokens: int) -> Fit:
    totals = sorted(gpu.total for gpu in gpus)[-parallel:]
    return fit(loads, totals, parallel=parallel, utilization=used, tokens=tokens, cache_type=None)


def _roomy(found: Fit) -> bool:
    left = found.offered - found.weights
    return (found.cache or 0.0) <= left * ROOM and left > 0


def _parallel(tried: Mapping[int, Fit], parallel: int, enough: bool) -> str:
    found = tried[parallel]
    words = f"{found.weights:.0f} MiB of weights on each of {parallel}, {found.offered:.0f} offered"
    if parallel > 1 and enough:
        before = max(n for n in tried if n < parallel)
        return f"{words}; {before} would leave too little"
    return words if enough else f"{words}: it may not fit"


def _share(gpus: Sequence[Memory]) -> Proposal | None:
    """A smaller share than vLLM's own where something else holds memory; else None."""
    shares = [(gpu.free - CONTEXT) * 100 // gpu.total for gpu in gpus if gpu.free is not None]
    least = min(shares, default=100) / 100
    if least >= UTILIZATION:
        return None
    held = max(gpu.total - gpu.free for gpu in gpus if gpu.free is not None)
    return Proposal("gpu_memory_utilization", max(0.05, least), f"{held} MiB are in use by others")


def _context(
    loads: Loads, gpus: Sequence[Memory], parallel: int, used: float, longest: int
) -> Proposal:
    if _roomy(_fit(loads, gpus, parallel, used, longest)):
        return Proposal("max_model_len", longest, "the model's own, and one such request fits")
    fits = [n for n in range(STEP, longest, STEP) if _roomy(_fit(loads, gpus, parallel, used, n))]
    if not fits:
        return Proposal("max_model_len", min(STEP, longest), "little memory is left by the weights")
    why = f"what fits beside the weights; the model's own is {longest}"
    return Proposal("max_model_len", fits[-1], why)


def draft_tokens(method: str, config: Mapping[str, Any] | None) -> Proposal:
    """Tokens to draft in each step, from a drafter's config (None: a method without one)."""
    config = config or {}
    own = config.get("dflash_config")
    block = config.get("block_size") or (own.get("block_size") if isinstance(own, Mapping) else 0)
    if method == "dflash" and isinstance(block, int) and whole(block, 2):
        return Proposal("num_speculative_tokens", block - 1, f"block_size {block} - 1")
    keys, what = COUNTS.get(method, ((), ""))
    found = next((config[key] for key in keys if whole(config.get(key), 1)), None)
    if found is not None:
        return Proposal("num_speculative_tokens", int(found), f"the drafter's {found} {what}")
    value = TOKENS.get(methods.canonical(method), 1)
    why = f"usual for {method}; compare others by deployctl bench"
    return Proposal("num_speculative_tokens", value, why)
