"""Parsers by what a model is: its type, and its name where that decides."""

from __future__ import annotations

import pytest

from deployctl.vllm.serving.parsers import parsers


@pytest.mark.parametrize(
    ("name", "model_type", "tools", "reasoning"),
    [
        ("Qwen/Qwen3-8B", "qwen3", "hermes", "qwen3"),
        ("/models/Qwen3-8B/", "qwen3", "hermes", "qwen3"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_moe", "hermes", None),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_moe", "qwen3_coder", None),
        ("Qwen/Qwen3.6-27B", "qwen3_5", "qwen3_coder", "qwen3"),
        ("Qwen/QwQ-32B", "qwen2", "hermes", "deepseek_r1"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2", None, "deepseek_r1"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama", None, "deepseek_r1"),
        ("openai/gpt-oss-20b", "gpt_oss", "openai", "openai_gptoss"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v3", "deepseek_v31", "deepseek_v3"),
        ("zai-org/GLM-4.5-Air", "glm4_moe", "glm45", "glm45"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama", "llama3_json", None),
    ],
)
def test_a_family_has_its_parsers(
    name: str, model_type: str, tools: str | None, reasoning: str | None
) -> None:
    found = parsers(name, {"model_type": model_type})
    assert found is not None and (found.tools, found.reasoning) == (tools, reasoning)
    assert f"model_type {model_type}" in found.reason


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("me/my-model", {"model_type": "llama"}),
        ("Qwen/Qwen2-7B", {"model_type": "qwen2"}),
        ("me/qwen3", {"model_type": "mamba"}),
        ("me/nothing", {}),
    ],
)
def test_where_the_family_is_not_known_nothing_is_proposed(
    name: str, config: dict[str, str]
) -> None:
    assert parsers(name, config) is None
