"""Checks of a DFlash drafter's config.json: what vLLM refuses, and what it takes silently and then
drafts badly with.

The rules are those of vLLM's own readers (0.19 to 0.33): model_executor/models/qwen3_dflash.py,
config/speculative.py and transformers_utils/configs/speculators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deployctl.vllm.drafters.drafter import TWINS, same
from deployctl.vllm.drafters.drafter_shape import Shape, shape, target_fact, usual_layer_ids
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, Verdict, equal, judged
from deployctl.vllm.drafters.jsonedit import look


def _target_layers(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    its = target_fact(around.target, "num_hidden_layers")
    if drafter.target_layers is not None:
        yield equal("target_layers", "num_target_layers", drafter.target_layers, its)


def _layer_ids(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    ids, key, first = drafter.layer_ids, drafter.layer_ids_key, drafter.first_layer
    if drafter.dialect == "none" or not ids:
        yield Check(
            "layer_ids", "error", f"{key} is missing: vLLM would take other layers, silently"
        )
        return
    yield judged(
        "layer_ids",
        len(set(ids)) != len(ids) or sorted(ids) != list(ids),
        f"{key} {list(ids)} must rise and have no duplicates",
    )
    layers = target_fact(around.target, "num_hidden_layers") or drafter.target_layers
    if layers is None:
        yield Check("layer_ids_range", "unknown", "the target's config has no num_hidden_layers")
        return
    highest = layers - 1 + first
    outside = [i for i in ids if not first <= i <= highest]
    yield judged(
        "layer_ids_range",
        bool(outside),
        f"{key} {outside}: the target has {layers} layers, {first} to {highest}; "
        "the server would start and its engine die with the first request",
    )
    if drafter.architecture == "DFlashDraftModel":
        yield from _usual(list(ids), layers, drafter, around)


def _usual(ids: list[int], layers: int, drafter: Shape, around: Circumstances) -> Iterator[Check]:
    key = drafter.layer_ids_key
    usual = [i + drafter.first_layer for i in usual_layer_ids(len(ids), layers)]
    yield judged(
        "layer_ids_usual",
        ids != usual,
        f"{key} {ids} is not the usual choice for {layers} layers, {usual}",
        "warning",
    )
    before = shape(around.upstream).layer_ids if around.upstream else None
    base = list(before) if before else usual
    # A stale upstream that is one too low may well be raised to the usual choice.
    if ids != usual and ids == [i + 1 for i in base]:
        fixed = around.layer_offset
        yield Check(
            "layer_ids_shifted",
            "warning" if fixed is False else "error",
            f"{key} {ids} is {base} plus one: that shifts a vLLM with the layer offset twice"
            + (" (this build lacks it)" if fixed is False else ""),
        )


def _weights(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    """The weights say how many of the target's layers they were trained on."""
    fc = (around.tensors or {}).get("fc.weight")
    width = target_fact(around.target, "hidden_size")
    if fc is None or len(fc) != 2 or not width or not drafter.layer_ids:
        return
    count = fc[1] / width
    yield judged(
        "weights",
        count != len(drafter.layer_ids),
        f"{drafter.layer_ids_key} names {len(drafter.layer_ids)} layers, "
        f"the weights take {fc[1]} features: {count:g} layers of {width}",
    )


def _mask_token(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    mask, target = drafter.mask_token_id, around.target
    if mask is None:
        yield Check(
            "mask_token",
            "error",
            "dflash_config.mask_token_id is missing; it belongs to the checkpoint: take it from "
            "the model's card, never invent one",
        )
        return
    vocabulary = drafter.vocabulary or target_fact(target, "vocab_size")
    if vocabulary is not None and not 0 <= mask < vocabulary:
        yield Check("mask_token", "error", f"mask_token_id {mask} is outside 0..{vocabulary - 1}")
        return
    named = around.mask_tokens
    if named and mask not in named:
        yield Check(
            "mask_token",
            "warning",
            f"mask_token_id is {mask}, the tokenizer's own mask token is {named[0]}",
        )
        return
    others = ("bos_token_id", "eos_token_id", "pad_token_id")
    used = [key for key in others if target_fact(target, key) == mask]
    yield judged(
        "mask_token", bool(used), f"mask_token_id {mask} is also {', '.join(used)}", "warning"
    )


def _layer_types(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    types, layers = drafter.layer_types, drafter.layers
    if types is None:
        if drafter.use_sliding_window or drafter.nested_use:
            verdict: Verdict = "ok" if drafter.nested_use else "warning"
            yield Check(
                "layer_types",
                verdict,
                "missing: all layers run with full attention" if verdict == "warning" else "",
            )
        return
    wrong = sorted(set(types) - {"full_attention", "sliding_attention"})
    if wrong:
        yield Check("layer_types", "error", f"layer_types has {', '.join(wrong)}")
    elif layers is not None and len(types) != layers:
        yield Check(
            "layer_types",
            "error",
            f"layer_types has {len(types)} entries, num_hidden_layers is {layers}",
        )
    else:
        yield Check("layer_types", "ok")


def _sliding_window(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    if not drafter.has_sliding_layers:
        return
    if drafter.nested_window is not None:
        yield Check("sliding_window", "ok")
        return
    problems = []
    if not drafter.use_sliding_window:
        problems.append(
            f"use_sliding_window is {_shown(drafter.use_sliding_window)}: the window is dropped, "
            "silently up to vLLM 0.24"
        )
    if not drafter.sliding_window:
        problems.append(
            f"sliding_window is {_shown(drafter.sliding_window)}: vLLM takes 4096 or refuses"
        )
    yield judged("sliding_window", bool(problems), "; ".join(problems))


def _shown(value: Any) -> str:
    return "missing" if value is None else str(value).lower()


def _draft_tokens(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    if drafter.block_size is None:
        yield Check("draft_tokens", "unknown", "the drafter's config has no block_size")
        return
    most = drafter.block_size - 1
    yield judged(
        "draft_tokens",
        around.draft_tokens > most,
        f"{around.draft_tokens} draft tokens asked for, {most} is the most: "
        f"block_size {drafter.block_size} less the token it starts from",
    )


def copies(config: Mapping[str, Any]) -> Iterator[Check]:
    """A key at both places with two values: one reader or the other is misled."""
    for top, nested in TWINS:
        try:
            one, other = look(config, top), look(config, nested)
        except KeyError:
            continue
        if top == "sliding_window" and one is None:
            continue
        yield judged(
            "copies", not same(one, other), f"{top} is {one}, its copy {nested} is {other}"
        )


RULES: tuple[Callable[[Shape, Circumstances], Iterator[Check]], ...] = (
    _target_layers,
    _layer_ids,
    _weights,
    _mask_token,
    _layer_types,
    _sliding_window,
    _draft_tokens,
)
"""Every rule, in the order in which people read them."""
