"""Checks of drafters that a target may bring itself: MTP layers, and DSpark's stages.

From `SpeculativeConfig` of vLLM's config/speculative.py, 0.20 to 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.vllm.drafters import mtp
from deployctl.vllm.drafters.drafter_shape import Shape, target_fact
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, Verdict, equal, judged
from deployctl.vllm.drafters.fields import read

QWEN, OMNI, GEMMA = "Qwen3DSparkModel", "Qwen3OmniDSparkModel", "Gemma4DSparkModel"
STANDALONE = (QWEN, OMNI, GEMMA, "K3DSparkModel")
"""DSpark drafters with a checkpoint of their own."""
STAGES = ("dspark_block_size", "dspark_target_layer_ids", "dspark_noise_token_id")
"""Keys of a target that holds DSpark's stages."""
_IDS = ("dflash_config.target_layer_ids", "dspark_target_layer_ids", "target_layer_ids")


def mtp_layers(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    """How many layers there are to draft with, and whether the draft tokens fit them."""
    kind = config.get("model_type")
    if mtp.STAGES_ONLY in (kind, around.target.get("model_type")):
        yield Check("method", "error", f"{mtp.STAGES_ONLY} has no MTP layers: use method dspark")
        return
    known = mtp.family(config)
    if known is None:
        said = f"not checked: there are no rules for MTP of model type {kind}"
        yield Check("method", "unknown", said)
        return
    yield _made(known.made, around)
    key, count = known.keys[0], mtp.layers(known, config)
    depth = known.default if count is None else count
    if depth is None and known.strict:
        yield Check("mtp_layers", "error", f"{key} is missing: vLLM refuses MTP for it")
    elif depth is None:
        said = f"{key} is missing: whether the checkpoint has MTP layers is not known"
        yield Check("mtp_layers", "unknown", said)
    else:
        none = f"{key} is 0: the checkpoint has no MTP layers"
        yield judged("mtp_layers", not depth, none)
    if depth:
        yield _multiples(around.draft_tokens, depth, f"its {depth} MTP layers")


def _made(names: tuple[str, ...], around: Circumstances) -> Check:
    """Whether the built vLLM knows one of the architectures that versions of it look up."""
    if around.architectures is None:
        return Check("architecture", "unknown", "which architectures the built vLLM knows")
    missing = not set(names) & set(around.architectures)
    return judged("architecture", missing, f"the built vLLM knows no {' or '.join(names)}")


def _multiples(tokens: int, depth: int, of: str) -> Check:
    if tokens > depth and tokens % depth:
        return Check("draft_tokens", "error", f"{tokens} draft tokens are not a multiple of {of}")
    again = tokens > depth
    return Check("draft_tokens", "ok", f"{of} run {tokens // depth} times" if again else "")


def dspark(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    """What vLLM makes of a DSpark drafter, and what it refuses."""
    made = dspark_architecture(drafter.architecture, config, around.target)
    if made is None:
        said = "what vLLM makes of a DSpark drafter in speculators' dialect"
        yield Check("architecture", "unknown", said)
    else:
        yield _made((made,), around)
    yield _round(made, around, config)
    yield from _ids(made, around, config)
    if made == OMNI:
        its = target_fact(_thinker(around.target), "hidden_size")
        yield equal("hidden_size", "hidden_size", drafter.hidden_size, its)
        taken = drafter.target_hidden_size
        yield equal("hidden_size", "target_hidden_size", taken, its)
    top = read(config, "dspark_draft_topk")
    if top is not None and made is not None:
        most = read(config, "draft_vocab_size") or drafter.vocabulary
        wrong = made not in (QWEN, OMNI)
        said = f"{made} takes no dspark_draft_topk" if wrong else f"dspark_draft_topk is {top}"
        beyond = most is not None and top > most
        yield judged("draft_topk", wrong or beyond, said if wrong else f"{said}, {most} is most")


def dspark_architecture(
    own: str | None, config: Mapping[str, Any], target: Mapping[str, Any]
) -> str | None:
    """The architecture that vLLM looks up for a DSpark drafter; None where that is not known."""
    if own in STANDALONE:
        return own
    if "speculators_model_type" in config:
        return None
    if own == "DSparkDraftModel" and config.get("model_type") == "qwen3":
        return QWEN
    staged = mtp.STAGES_ONLY in (config.get("model_type"), target.get("model_type"))
    return "DSparkV41DraftModel" if staged else "DSparkDraftModel"


def _round(made: str | None, around: Circumstances, config: Mapping[str, Any]) -> Check:
    """Whether the draft tokens fit what is drafted in one round."""
    block, tokens = read(config, "block_size"), around.draft_tokens
    if made == OMNI:
        block = block or read(config, "dspark_block_size")
        if block is None:
            return Check("draft_tokens", "error", "block_size is missing: vLLM refuses that")
        said = f"{tokens} draft tokens asked for, vLLM takes block_size {block} alone"
        return judged("draft_tokens", tokens != block, said)
    keys = {
        GEMMA: ("n_predict", "block_size"),
        "DSparkDraftModel": mtp.NEXTN,
        "DSparkV41DraftModel": ("dspark_block_size", *mtp.NEXTN),
    }.get(made or "", ("n_predict",))
    found = next(((key, size) for key in keys if (size := read(config, key))), None)
    if found is None:
        return Check("draft_tokens", "unknown", f"the drafter's config has no {keys[0]}")
    return _multiples(tokens, found[1], f"{found[0]} {found[1]}")


def _ids(made: str | None, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    """The target's layers that it reads: vLLM checks them for Qwen3-Omni alone."""
    key, ids = next(((key, found) for key in _IDS if (found := read(config, key))), (_IDS[0], None))
    verdict: Verdict = "error" if made == OMNI else "warning"
    if ids is None:
        if made == OMNI:
            yield Check("layer_ids", "error", f"{key} is missing: vLLM refuses that")
        return
    rises = sorted(set(ids)) == list(ids)
    said = f"{key} {list(ids)} must rise and have no duplicates"
    yield judged("layer_ids", not rises, said, verdict)
    layers = target_fact(_thinker(around.target), "num_hidden_layers")
    if layers is None:
        yield Check("layer_ids_range", "unknown", "the target's config has no num_hidden_layers")
        return
    outside = [i for i in ids if not 0 <= i < layers]
    said = f"{key} {outside}: the target has {layers} layers, 0 to {layers - 1}"
    yield judged("layer_ids_range", bool(outside), said, verdict)


def _thinker(target: Mapping[str, Any]) -> Mapping[str, Any]:
    """Qwen3-Omni keeps its language model's config one level deeper."""
    nested = target.get("thinker_config")
    return nested if isinstance(nested, Mapping) else target
