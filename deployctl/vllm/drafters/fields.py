"""The keys that a drafter's config.json is known to have, and what kind of value each holds.

Collected from the readers (vLLM's qwen3_dflash.py, speculators' converter, transformers'
configuration classes) and from published drafters. What is read by arithmetic later is checked
here first, so that no later check meets a value of a kind that it cannot reckon with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters.drafter import BODY
from deployctl.vllm.drafters.jsonedit import look

NESTED_MODEL = "model"
"""Where vLLM's own EAGLEConfig keeps the drafter's model (transformers_utils/configs/eagle.py)."""
LARGEST = 2**63 - 1
"""The largest whole number that a tensor's index can be."""


@dataclass(frozen=True)
class Kind:
    """A kind of value in words, how it is recognised, and whether null may stand for "absent"."""

    words: str
    fits: Callable[[Any], bool]
    null: bool = True

    def holds(self, value: Any) -> bool:
        return self.null if value is None else self.fits(value)


def whole(value: Any, least: int = -LARGEST) -> bool:
    """A whole number as JSON has it: neither true nor 1.0 is one."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _text(value: Any) -> bool:
    return isinstance(value, str)


COUNT = Kind("a whole number from 1", lambda v: whole(v, 1))
SAID_COUNT = Kind(COUNT.words, COUNT.fits, null=False)
TOKEN = Kind("a whole number from 0", lambda v: whole(v, 0))
TOKENS = Kind("a token's number or a list of them", lambda v: whole(v) or _list_of(whole)(v))
NUMBERS = Kind("a list of whole numbers", _list_of(whole))
TEXTS = Kind("a list of names", _list_of(_text))
TEXT = Kind("a name", _text)
SWITCH = Kind("true or false", lambda v: isinstance(v, bool))
NUMBER = Kind("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool))
OBJECT = Kind("an object", lambda v: isinstance(v, Mapping))


def _keys(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


_MODEL = {
    **_keys(SAID_COUNT, "hidden_size intermediate_size num_attention_heads num_hidden_layers"),
    **_keys(SAID_COUNT, "vocab_size"),
    **_keys(COUNT, "head_dim max_position_embeddings num_key_value_heads v_head_dim"),
    **_keys(TOKEN, "max_window_layers sliding_window"),
    **_keys(TOKENS, "bos_token_id eos_token_id pad_token_id"),
    **_keys(TEXTS, "layer_types"),
    **_keys(TEXT, "dtype hidden_act model_type torch_dtype"),
    **_keys(SWITCH, "attention_bias attention_sink_bias is_causal mlp_bias tie_word_embeddings"),
    **_keys(SWITCH, "use_cache use_sliding_window"),
    **_keys(NUMBER, "attention_dropout attention_value_scale final_logit_softcapping"),
    **_keys(NUMBER, "initializer_range partial_rotary_factor rms_norm_eps rope_theta"),
    **_keys(OBJECT, "rope_parameters rope_scaling"),
}
_DFLASH = {
    **_keys(SAID_COUNT, "block_size"),
    **_keys(COUNT, "conv_group_size conv_kernel_size num_anchors selector_rank selector_top_k"),
    **_keys(TOKEN, "mask_token_id swa_window_size"),
    **_keys(NUMBERS, "target_layer_ids"),
    **_keys(SWITCH, "attention_sink_bias causal use_swa"),
    **_keys(NUMBER, "attention_value_scale backbone_rotary_base final_logit_softcapping"),
    **_keys(NUMBER, "loss_decay_gamma output_multiplier"),
}
_OWN = {
    **_keys(SAID_COUNT, "block_size num_target_layers"),
    **_keys(COUNT, "draft_vocab_size target_hidden_size truncated_vocab_size"),
    **_keys(COUNT, "medusa_num_heads medusa_num_layers n_predict num_heads emb_dim inner_dim"),
    **_keys(COUNT, "dspark_block_size dspark_draft_topk"),
    **_keys(TOKEN, "mask_token_id mtp_num_hidden_layers num_mtp_modules num_nextn_predict_layers"),
    **_keys(NUMBERS, "dspark_target_layer_ids"),
    **_keys(NUMBERS, "aux_hidden_state_layer_ids target_layer_ids"),
    **_keys(NUMBERS, "eagle_aux_hidden_state_layer_ids"),
    **_keys(NUMBERS, "eagle_config.eagle_aux_hidden_state_layer_ids"),
    **_keys(TEXTS, "architectures"),
    **_keys(TEXT, "speculators_model_type speculators_version transformers_version"),
    **_keys(SWITCH, "norm_before_fc norm_before_residual"),
    **_keys(OBJECT, f"auto_map dflash_config quantization_config speculators_config {BODY}"),
    **_keys(OBJECT, f"eagle_config {NESTED_MODEL}"),
}
FIELDS: Mapping[str, Kind] = {
    **_MODEL,
    **_OWN,
    **{f"dflash_config.{key}": kind for key, kind in _DFLASH.items()},
    **{f"{BODY}.{key}": kind for key, kind in _MODEL.items()},
    **{f"{NESTED_MODEL}.{key}": kind for key, kind in _MODEL.items()},
    f"{NESTED_MODEL}.architectures": TEXTS,
}
"""The kind of every known key, by key path."""
OPEN = tuple(
    f"{key}."
    for key, kind in FIELDS.items()
    if kind is OBJECT and key not in ("dflash_config", BODY)
)
"""What stands before the keys of objects whose keys are free."""


def misfits(config: Mapping[str, Any]) -> Iterator[tuple[str, Any, Kind]]:
    """The known keys of a config whose value is of another kind: key path, value, kind."""
    for path, kind in FIELDS.items():
        try:
            value = look(config, path)
        except KeyError:
            continue
        if not kind.holds(value):
            yield path, value, kind


def read(config: Mapping[str, Any], path: str) -> Any:
    """The value of a known key; None where it is missing or of another kind."""
    try:
        value = look(config, path)
    except KeyError:
        return None
    return value if FIELDS[path].holds(value) else None
