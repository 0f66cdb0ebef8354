"""Multi-token prediction: which models vLLM drafts for with layers of their own, and how many.

From `hf_config_override` of vLLM's config/speculative.py, 0.20 to 0.33, which makes an MTP config
of the target's own (or of an assistant's). Newer versions know more families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters.fields import whole

NEXTN = ("num_nextn_predict_layers",)
OWN = ("mtp_num_hidden_layers",)
MODULES = ("num_mtp_modules",)


@dataclass(frozen=True)
class Family:
    """How vLLM drafts for a family of models.

    `made` are the architectures that it looks up, by version; `keys` say how many MTP layers there
    are, `default` holds where none does; `fixed` holds whatever they say. Of a `strict` family
    vLLM refuses a config without a key.
    """

    made: tuple[str, ...]
    keys: tuple[str, ...] = NEXTN
    default: int | None = None
    fixed: int | None = None
    strict: bool = False


def _each(family: Family, names: str) -> dict[str, Family]:
    return dict.fromkeys(names.split(), family)


_V32 = Family(("DeepseekV32MTPModel", "DeepSeekMTPModel"))
_MIMO_V2 = Family(("MiMoV2MTPModel",), fixed=1)
_BAILING_V3 = Family(("BailingMoeV3MTPModel",))
_MINIMAX = Family(("MiniMaxM3MTP",), MODULES, default=1)
_STEP = Family(("Step3p5MTP",), default=1)
_DENSE, _MOE = Family(("Qwen3_5MTP",), OWN), Family(("Qwen3_5MoeMTP",), OWN)

BY_ARCHITECTURE: Mapping[str, Family] = {
    "MiMoForCausalLM": Family(("MiMoMTPModel",)),
    **_each(_MIMO_V2, "MiMoV2ForCausalLM MiMoV2FlashForCausalLM"),
    "MiMoV2OmniForCausalLM": Family(("MiMoV2OmniMTPModel",), fixed=1),
    "Glm4MoeForCausalLM": Family(("Glm4MoeMTPModel",)),
    "Glm4MoeLiteForCausalLM": Family(("Glm4MoeLiteMTPModel",)),
    "GlmOcrForConditionalGeneration": Family(("GlmOcrMTPModel",)),
    **_each(_BAILING_V3, "BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration"),
    "BailingMoeV2_5ForCausalLM": Family(("BailingMoeV25MTPModel",)),
    **_each(_STEP, "Step3p5ForCausalLM Step3p7ForConditionalGeneration"),
    **_each(_MINIMAX, "MiniMaxM3SparseForConditionalGeneration MiniMaxM3MTP"),
}
BY_TYPE: Mapping[str, Family] = {
    **_each(Family(("DeepSeekMTPModel",)), "deepseek_v3 deepseek_mtp"),
    **_each(_V32, "deepseek_v32 glm_moe_dsa"),
    "deepseek_v4": Family(("DeepSeekV4MTPModel",)),
    **_each(Family(("OpenPanguMTPModel",)), "pangu_ultra_moe pangu_ultra_moe_mtp"),
    "kimi_k3": Family(("KimiK3MTPModel",)),
    **_each(Family(("ErnieMTPModel",)), "ernie4_5_moe ernie_mtp"),
    **_each(Family(("NemotronHMTPModel",), strict=True), "nemotron_h nemotron_h_puzzle"),
    "nemotron_h_mtp": Family(("NemotronHMTPModel",), default=1),
    **_each(Family(("Qwen3NextMTP",)), "qwen3_next qwen3_next_mtp"),
    **_each(Family(("Qwen4ExpMTP",), (*OWN, *NEXTN)), "qwen4_exp qwen4_exp_text qwen4_exp_mtp"),
    **_each(Family(("BailingMoeV25MTPModel",)), "bailing_hybrid bailing_hybrid_mtp"),
    "bailing_hybrid_v3_mtp": _BAILING_V3,
    **_each(Family(("ExaoneMoeMTP",)), "exaone_moe exaone_moe_mtp"),
    **_each(Family(("Exaone4_5_MTP",)), "exaone4_5 exaone4_5_mtp"),
    **_each(_DENSE, "qwen3_5 qwen3_5_text"),
    **_each(_MOE, "qwen3_5_moe qwen3_5_moe_text"),
    "intern_s2_preview": Family((*_DENSE.made, *_MOE.made), OWN),
    "interns2_mobius": Family(("InternS2MobiusMTP",), OWN),
    **_each(Family(("LongCatFlashMTPModel",), default=1), "longcat_flash longcat_flash_ngram"),
    **_each(_STEP, "step3p5 step3p7 step3p5_mtp"),
    **_each(Family(("HYV3MTPModel",)), "hy_v3 hy_v3_mtp"),
    **_each(Family(("HYV4MTPModel",)), "hy_v4 hy_v4_mtp"),
    **_each(
        Family(("InklingMTPModel",), ("mtp_config.num_nextn_predict_layers",), strict=True),
        "inkling_mm_model inkling_model",
    ),
    **_each(Family(("Gemma4MTPModel",), fixed=1), "gemma4_assistant gemma4_unified_assistant"),
    **_each(_MINIMAX, "minimax_m3_vl minimax_m3_mtp"),
    "glm5_next": Family(("Glm5NextMTPModel",), strict=True),
    "dots3_note": Family(("Dots3NoteMTPModel",), default=1),
}
STAGES_ONLY = "deepseek_v41"
"""Its checkpoints hold DSpark's stages, and vLLM refuses mtp for it."""


def family(config: Mapping[str, Any]) -> Family | None:
    """The family of a target's or an assistant's config; None for those that are not known."""
    names = config.get("architectures")
    found = BY_ARCHITECTURE.get(str(names[0])) if isinstance(names, list) and names else None
    types = (config.get("model_type"), _text(config).get("model_type"))
    return found or next((BY_TYPE[str(t)] for t in types if str(t) in BY_TYPE), None)


def layers(known: Family, config: Mapping[str, Any]) -> int | None:
    """How many MTP layers a config says that it has; None where it does not say."""
    if known.fixed is not None:
        return known.fixed
    for key in known.keys:
        for place in (config, _text(config)):
            value: Any = place
            for part in key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if whole(value, 0):
                return int(value)
    return None


def assists(config: Mapping[str, Any]) -> bool:
    """Whether a config is of a model that does nothing but draft."""
    kind = str(config.get("model_type"))
    return kind.endswith(("_mtp", "_assistant")) and family(config) is not None


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = config.get("text_config")
    return nested if isinstance(nested, Mapping) else {}
