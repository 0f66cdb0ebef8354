"""What a drafter's config.json says about itself, read the same way from either dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters.drafter import BODY, Dialect, dialect
from deployctl.vllm.drafters.fields import NESTED_MODEL, read, whole


@dataclass(frozen=True)
class Shape:
    """The facts that the checks compare; None is "the file does not say".

    `layer_ids` are as the file has them; `first_layer` is the number that its dialect gives the
    output of the target's first layer (0 for z-lab's, 1 for speculators').
    """

    dialect: Dialect
    architecture: str | None
    hidden_size: int | None
    vocabulary: int | None
    layers: int | None
    layer_types: Sequence[str] | None
    target_layers: int | None
    target_hidden_size: int | None
    layer_ids: Sequence[int] | None
    layer_ids_key: str
    first_layer: int
    mask_token_id: int | None
    block_size: int | None
    use_sliding_window: bool | None
    sliding_window: int | None
    nested_window: int | None
    nested_use: bool | None

    @property
    def has_sliding_layers(self) -> bool:
        return "sliding_attention" in (self.layer_types or ())

    @property
    def mixed(self) -> bool:
        """Both kinds of attention in one drafter."""
        return len(set(self.layer_types or ())) > 1


def shape(config: Mapping[str, Any]) -> Shape:
    """Read a drafter's config.json. Where a key lives twice, the copy that vLLM reads counts; a
    value of a wrong type counts as absent.
    """
    spoken = dialect(config)
    body = ""
    if spoken == "speculators" and isinstance(config.get(BODY), Mapping):
        body = f"{BODY}."
    elif isinstance(config.get(NESTED_MODEL), Mapping):
        body = f"{NESTED_MODEL}."
    names = read(config, "architectures") or read(config, f"{NESTED_MODEL}.architectures")
    if spoken == "speculators":
        ids_key, mask_key = "aux_hidden_state_layer_ids", "mask_token_id"
        ids = read(config, ids_key)
    else:
        ids_key, mask_key = "dflash_config.target_layer_ids", "dflash_config.mask_token_id"
        ids = _either(config, ids_key, "target_layer_ids")
    return Shape(
        dialect=spoken,
        architecture=names[0] if names else None,
        hidden_size=read(config, f"{body}hidden_size") or read(config, "emb_dim"),
        vocabulary=read(config, f"{body}vocab_size"),
        layers=read(config, f"{body}num_hidden_layers"),
        layer_types=read(config, f"{body}layer_types"),
        target_layers=read(config, "num_target_layers"),
        target_hidden_size=read(config, "target_hidden_size"),
        layer_ids=ids,
        layer_ids_key=ids_key,
        first_layer=1 if spoken == "speculators" else 0,
        mask_token_id=read(config, mask_key),
        block_size=_either(config, "block_size", "dflash_config.block_size"),
        use_sliding_window=read(config, f"{body}use_sliding_window"),
        sliding_window=read(config, f"{body}sliding_window"),
        nested_window=read(config, "dflash_config.swa_window_size"),
        nested_use=read(config, "dflash_config.use_swa"),
    )


def _either(config: Mapping[str, Any], first: str, second: str) -> Any:
    found = read(config, first)
    return read(config, second) if found is None else found


def target_fact(target: Mapping[str, Any], key: str) -> int | None:
    """A whole number of the target's language model; None where its config does not say it."""
    value = text_config(target).get(key)
    return value if whole(value, 0) else None


def text_config(target: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a target's config (multimodal ones nest it)."""
    nested = target.get("text_config")
    return nested if isinstance(nested, Mapping) else target


def usual_layer_ids(count: int, target_layers: int) -> list[int]:
    """z-lab's first-generation choice of layers: round(1 + i (N - 4) / (n - 1)).

    `count` is n, the number of ids, `target_layers` N; it fits every first-generation set that
    is public, and not DFlash2's.
    """
    if count == 1:
        return [1]
    return [round(1 + i * (target_layers - 4) / (count - 1)) for i in range(count)]
