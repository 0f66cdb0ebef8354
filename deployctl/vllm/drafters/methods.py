"""vLLM's drafting methods, as far as they are known here: what each needs and is checked for.

From config/speculative.py and transformers_utils/configs (eagle.py, medusa.py, mlp_speculator.py,
speculators/algos.py) of vLLM 0.19 to 0.33. The list is open: a fork, or a later vLLM, may know
more, and the one that was built decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deployctl.vllm.drafters import mtp

Model = Literal["needed", "none", "optional"]


@dataclass(frozen=True)
class Method:
    """One method: whether it takes a model, what of the drafter must equal its target's, and how
    the architecture is named that vLLM makes of the drafter's own (prefix; None: as it is). Of an
    `own` method only its own rules hold."""

    model: Model = "optional"
    equal: tuple[str, ...] = ()
    prefix: str | None = None
    sets_architecture: bool = False
    checked: bool = True
    own: bool = False


UNCHECKED = Method(checked=False)
METHODS: Mapping[str, Method] = {
    "dflash": Method("needed", ("hidden_size", "vocabulary"), "DFlash"),
    "eagle": Method("needed", ("hidden_size", "vocabulary"), "Eagle"),
    "eagle3": Method("needed", ("hidden_size", "vocabulary"), "Eagle3"),
    "medusa": Method("needed", ("hidden_size", "vocabulary"), sets_architecture=True),
    "mlp_speculator": Method("needed", ("hidden_size", "vocabulary")),
    "draft_model": Method("needed", ("vocabulary",)),
    "ngram": Method("none"),
    "ngram_gpu": Method("none"),
    "suffix": Method("none"),
    "mtp": Method(own=True),
    "dspark": Method(own=True),
    "custom_class": Method(checked=False),
    "extract_hidden_states": Method(checked=False),
}
"""By vLLM's own name. Those without rules are known, and not checked."""


def known(name: str) -> bool:
    """Whether some vLLM is known to have this method; every model family has a `…_mtp`."""
    return canonical(name) in METHODS


def canonical(name: str) -> str:
    """vLLM's name for a method: it makes mtp of every family's own."""
    return "mtp" if name.endswith("_mtp") else name


def of(name: str) -> Method:
    """What is known of a method."""
    return METHODS.get(canonical(name), UNCHECKED)


def guessed(config: Mapping[str, Any]) -> str | None:
    """The method that a drafter's config.json is for; None where it does not follow from it."""
    spoken = config.get("speculators_model_type")
    if isinstance(spoken, str):
        return {"dflash2": "dflash", "peagle": "eagle3"}.get(spoken, spoken)
    kind = config.get("model_type")
    if kind in ("eagle", "medusa", "mlp_speculator"):
        return str(kind)
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    if "DSpark" in name:
        return "dspark"
    if name.startswith("DFlash") or isinstance(config.get("dflash_config"), Mapping):
        return "dflash"
    if "Eagle3" in name or "eagle_config" in config or "draft_vocab_size" in config:
        return "eagle3"
    if name.startswith("Eagle"):
        return "eagle"
    return "mtp" if mtp.assists(config) else None


def named(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The methods that a config has a drafter for: a drafter's own, or those of a target that
    brings MTP layers or DSpark's stages."""
    one = guessed(config)
    if one is not None:
        return (one,)
    known = mtp.family(config)
    layers = bool(known and mtp.layers(known, config))
    staged = any(key.startswith("dspark_") for key in config)
    return (("mtp",) if layers else ()) + (("dspark",) if staged else ())


def architecture(method: str, config: Mapping[str, Any], name: str | None) -> str | None:
    """The architecture that vLLM looks up for a drafter whose own is `name`; None for unknown."""
    spoken = config.get("speculators_model_type")
    if spoken == "eagle3":
        body = config.get("transformer_layer_config")
        kind = body.get("model_type", "llama") if isinstance(body, Mapping) else "llama"
        return {"qwen3": "Eagle3Qwen3ForCausalLM", "llama": "Eagle3LlamaForCausalLM"}.get(str(kind))
    if isinstance(spoken, str):
        return {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel"}.get(spoken, name)
    known_as = of(method)
    if known_as.sets_architecture and name is None:
        return "MedusaModel" if method == "medusa" else None
    prefix = known_as.prefix
    if name is None or prefix is None or name.startswith(prefix):
        return name
    return name if prefix != "Eagle" and name.endswith(prefix) else prefix + name
