"""Tool and reasoning parsers that fit a model, by what it is. Pure.

From the model's type in its config.json, and its name where one type has several dialects. The
names are those of vLLM's registries (vllm/tool_parsers/__init__.py, vllm/reasoning/__init__.py,
0.32.0), the families those of its documentation ("Tool Calling", "Reasoning Outputs"). A name that
the built vLLM does not have is refused by `rehearse`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Family:
    """Models with one dialect: a type as config.json has it, and what the name must have, where
    that matters. None: no such parser, or none is known to fit."""

    called: str
    model_type: str
    tools: str | None
    reasoning: str | None = None
    name: str = ""


FAMILIES = (
    Family("Qwen3-Coder", r"qwen3(_moe|_next)?", "qwen3_coder", None, r"coder"),
    Family("Qwen3 Instruct", r"qwen3(_moe|_next)?", "hermes", None, r"instruct"),
    Family("Qwen3", r"qwen3(_moe|_next)?", "hermes", "qwen3"),
    Family("Qwen3.5 and later", r"qwen3_5(_moe)?(_text)?", "qwen3_coder", "qwen3"),
    Family("QwQ", r"qwen2", "hermes", "deepseek_r1", r"qwq"),
    Family("DeepSeek-R1 distilled", r"qwen2|llama", None, "deepseek_r1", r"deepseek-r1"),
    Family("Qwen2.5", r"qwen2", "hermes", None, r"qwen2\.5"),
    Family("gpt-oss", r"gpt_oss", "openai", "openai_gptoss"),
    Family("DeepSeek-R1", r"deepseek_v3", "deepseek_v3", "deepseek_r1", r"r1"),
    Family("DeepSeek-V3.1", r"deepseek_v3", "deepseek_v31", "deepseek_v3", r"v3\.1"),
    Family("DeepSeek-V3", r"deepseek_v3", "deepseek_v3"),
    Family("DeepSeek-V3.2", r"deepseek_v32", "deepseek_v32", "deepseek_v3"),
    Family("GLM-4.7", r"glm4_moe", "glm47", "glm47", r"4\.7"),
    Family("GLM-4.5 and 4.6", r"glm4_moe", "glm45", "glm45"),
    Family("Kimi-K2", r"kimi_k2", "kimi_k2", "kimi_k2", r"thinking"),
    Family("Kimi-K2", r"kimi_k2", "kimi_k2"),
    Family("MiniMax-M2", r"minimax_m2", "minimax_m2", "minimax_m2"),
    Family("Gemma 4", r"gemma4(_text)?", "gemma4", "gemma4"),
    Family("Seed-OSS", r"seed_oss", "seed_oss", "seed_oss"),
    Family("Llama 3.1 to 3.3", r"llama", "llama3_json", None, r"llama-?3\.[123].*instruct"),
    Family("Llama 4", r"llama4(_text)?", "llama4_pythonic"),
    Family("Mistral", r"mistral|mistral3|mixtral", "mistral", None, r"instruct"),
)
"""In order: the first that fits."""


@dataclass(frozen=True)
class Parsers:
    """What to begin with for a model, and why."""

    tools: str | None
    reasoning: str | None
    reason: str


def parsers(name: str, config: Mapping[str, Any]) -> Parsers | None:
    """The parsers of a model by its name (a folder or OWNER/NAME) and config.json; None where its
    family is not known."""
    kind = str(config.get("model_type") or "")
    for family in FAMILIES:
        named = re.search(family.name, name, re.IGNORECASE) is not None
        if re.fullmatch(family.model_type, kind) and named:
            why = f"vLLM's for {family.called}, by model_type {kind}"
            by_name = f" and the name {name.rstrip('/').rpartition('/')[2]}" if family.name else ""
            return Parsers(family.tools, family.reasoning, f"{why}{by_name}")
    return None
