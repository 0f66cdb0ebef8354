"""Checks of EAGLE-3, Medusa and MLP-speculator drafters: what vLLM's readers refuse, or take
silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deployctl.vllm.drafters.drafter_shape import Shape, target_fact
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, judged
from deployctl.vllm.drafters.fields import read

Rule = Callable[[Shape, Circumstances, Mapping[str, Any]], Iterator[Check]]
AUX = ("eagle_aux_hidden_state_layer_ids", "eagle_config.eagle_aux_hidden_state_layer_ids")


def aux_layers(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    """The target's layers that an EAGLE-3 drafter reads: 0 is the embedding's output, and the
    last layer's is one more than its index."""
    key, ids = next(((key, found) for key in AUX if (found := read(config, key))), (AUX[0], None))
    layers = target_fact(around.target, "num_hidden_layers")
    if ids is None:
        usual = "" if layers is None else f", here 2, {layers // 2} and {layers - 3}"
        yield Check("layer_ids", "ok", f"{key} is missing: vLLM takes its own three layers{usual}")
        return
    yield judged(
        "layer_ids",
        sorted(set(ids)) != list(ids),
        f"{key} {list(ids)} must rise and have no duplicates",
    )
    if layers is None:
        yield Check("layer_ids_range", "unknown", "the target's config has no num_hidden_layers")
        return
    outside = [i for i in ids if not 0 <= i <= layers]
    yield judged(
        "layer_ids_range", bool(outside), f"{key} {outside}: the target has {layers} layers"
    )


def draft_vocabulary(
    drafter: Shape, around: Circumstances, config: Mapping[str, Any]
) -> Iterator[Check]:
    """A drafter may know fewer tokens than its target, never more."""
    own = read(config, "draft_vocab_size") or read(config, "truncated_vocab_size")
    its = target_fact(around.target, "vocab_size")
    if own is not None and its is not None and own > its:
        said = f"draft_vocab_size is {own}, more than the target's vocabulary of {its}"
        yield Check("vocabulary", "error", said)


def heads(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    """Each of Medusa's heads proposes one token."""
    count = read(config, "num_heads") or read(config, "medusa_num_heads")
    if count is None:
        yield Check("draft_tokens", "unknown", "the drafter's config has no num_heads: 5 in vLLM")
        return
    yield judged(
        "draft_tokens",
        around.draft_tokens > count,
        f"{around.draft_tokens} draft tokens asked for, its {count} heads propose {count}",
    )


def lookahead(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    """vLLM takes multiples of `n_predict` alone."""
    count = read(config, "n_predict")
    if count is None:
        yield Check("draft_tokens", "unknown", "the drafter's config has no n_predict: 3 in vLLM")
        return
    yield judged(
        "draft_tokens",
        around.draft_tokens % count != 0 and around.draft_tokens > 1,
        f"{around.draft_tokens} draft tokens are not a multiple of n_predict {count}",
    )


RULES: Mapping[str, tuple[Rule, ...]] = {
    "eagle": (draft_vocabulary,),
    "eagle3": (aux_layers, draft_vocabulary),
    "medusa": (draft_vocabulary, heads),
    "mlp_speculator": (lookahead,),
}
"""By method; DFlash's are its own."""
