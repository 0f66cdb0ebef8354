"""Drafting methods and drafters of other families: nested forms, both numberings of layers.

Field names and rules from vLLM's readers (config/speculative.py, transformers_utils/configs);
shapes of published drafters, with numbers of ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.config.models import DrafterSettings
from deployctl.vllm.drafters import methods
from deployctl.vllm.drafters.drafter_checks import check
from deployctl.vllm.drafters.drafter_verdicts import CHECKS, Circumstances

FIELD = Path(__file__).parents[2] / "cases" / "field"
TARGET = {"hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 32000}


def verdicts(config: dict[str, Any], method: str, tokens: int = 3, **more: Any) -> dict[str, str]:
    """By name, the first that is not ok."""
    found = check(config, Circumstances(more.pop("target", TARGET), method, tokens, **more))
    assert {one.name for one in found} <= CHECKS
    said: dict[str, str] = {}
    for one in found:
        if said.get(one.name, "ok") == "ok":
            said[one.name] = one.verdict
    return said


def field_case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIELD / name).read_text())
    return found


def test_an_eagle_drafter_in_vllms_own_nested_form() -> None:
    config = field_case("21-eagle-nested-model/eagle1-nested.json")
    target = field_case("21-eagle-nested-model/llama2-7b.json")
    found = verdicts(config, "eagle", target=target, architectures={"EagleLlamaForCausalLM"})
    assert found == {"architecture": "ok", "hidden_size": "ok", "vocabulary": "ok"}
    assert verdicts(config, "eagle", target=target)["architecture"] == "unknown"
    other = verdicts(config, "eagle", target={**target, "hidden_size": 5120})
    assert other["hidden_size"] == "error"


@pytest.mark.parametrize("name", ["gemma4-31b", "gptoss"])
def test_published_eagle3_heads(name: str) -> None:
    folder = "26-eagle3-nested-gemma4"
    config, target = (field_case(f"{folder}/{file}.json") for file in (f"{name}-eagle3", name))
    found = verdicts(config, "eagle3", target=target)
    assert "error" not in found.values()
    assert (found["hidden_size"], found["vocabulary"]) == ("ok", "ok")


LLAMA = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "vocab_size": 32000}
EAGLE3 = {**LLAMA, "draft_vocab_size": 16000}
MEDUSA = {"model_type": "medusa", "hidden_size": 4096, "vocab_size": 32000, "medusa_num_heads": 4}
MLP = {
    "architectures": ["MLPSpeculatorPreTrainedModel"],
    "model_type": "mlp_speculator",
    "emb_dim": 4096,
    "n_predict": 3,
    "vocab_size": 32000,
}


@pytest.mark.parametrize(
    ("config", "method", "tokens", "name", "verdict"),
    [
        # The last layer's output is one more than its index (llama.py of vLLM 0.32).
        ({**EAGLE3, "eagle_aux_hidden_state_layer_ids": [2, 16, 32]}, "eagle3", 3,
         "layer_ids_range", "ok"),
        ({**EAGLE3, "eagle_aux_hidden_state_layer_ids": [2, 16, 33]}, "eagle3", 3,
         "layer_ids_range", "error"),
        ({**EAGLE3, "eagle_aux_hidden_state_layer_ids": [16, 2, 29]}, "eagle3", 3,
         "layer_ids", "error"),
        # NVIDIA's heads keep them one level down.
        ({**EAGLE3, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 40]}}, "eagle3", 3,
         "layer_ids_range", "error"),
        (EAGLE3, "eagle3", 3, "layer_ids", "ok"),
        ({**EAGLE3, "draft_vocab_size": 64000}, "eagle3", 3, "vocabulary", "error"),
        ({**LLAMA, "target_hidden_size": 4096, "hidden_size": 2048}, "eagle3", 3,
         "hidden_size", "ok"),
        (MEDUSA, "medusa", 4, "draft_tokens", "ok"),
        (MEDUSA, "medusa", 5, "draft_tokens", "error"),
        (MLP, "mlp_speculator", 6, "draft_tokens", "ok"),
        (MLP, "mlp_speculator", 4, "draft_tokens", "error"),
        ({**MLP, "emb_dim": 2048}, "mlp_speculator", 3, "hidden_size", "error"),
        ({**LLAMA, "hidden_size": 2048}, "draft_model", 3, "vocabulary", "ok"),
        ({**LLAMA, "vocab_size": 151936}, "draft_model", 3, "vocabulary", "error"),
        ({"model_type": "some_assistant"}, "mtp", 4, "method", "unknown"),
        ({"model_type": "x"}, "a_forks_own", 4, "method", "unknown"),
    ],
)  # fmt: skip
def test_rules_by_method(
    config: dict[str, Any], method: str, tokens: int, name: str, verdict: str
) -> None:
    assert verdicts(config, method, tokens)[name] == verdict


@pytest.mark.parametrize(
    ("method", "config", "own", "made"),
    [
        ("eagle", {}, "LlamaForCausalLM", "EagleLlamaForCausalLM"),
        ("eagle", {}, "EagleMistralLarge3ForCausalLM", "EagleMistralLarge3ForCausalLM"),
        ("eagle3", {}, "LlamaForCausalLM", "Eagle3LlamaForCausalLM"),
        ("eagle3", {}, "LlamaForCausalLMEagle3", "LlamaForCausalLMEagle3"),
        ("dflash", {}, "DFlashDraftModel", "DFlashDraftModel"),
        ("dflash", {}, "Qwen3ForCausalLM", "DFlashQwen3ForCausalLM"),
        ("medusa", {}, None, "MedusaModel"),
        ("draft_model", {}, "LlamaForCausalLM", "LlamaForCausalLM"),
        (
            "eagle3",
            {
                "speculators_model_type": "eagle3",
                "transformer_layer_config": {"model_type": "qwen3"},
            },
            "Eagle3DraftModel",
            "Eagle3Qwen3ForCausalLM",
        ),
    ],
)
def test_the_architecture_that_vllm_makes(
    method: str, config: dict[str, Any], own: str | None, made: str
) -> None:
    assert methods.architecture(method, config, own) == made


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"model_type": "eagle", "model": LLAMA}, "eagle"),
        (MEDUSA, "medusa"),
        (MLP, "mlp_speculator"),
        ({"speculators_model_type": "eagle3"}, "eagle3"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "eagle3"),
        ({"architectures": ["DFlash2DraftModel"]}, "dflash"),
        (LLAMA, None),
        ({"architectures": 3}, None),
    ],
)
def test_the_method_that_a_file_is_for(config: dict[str, Any], method: str | None) -> None:
    assert methods.guessed(config) == method


def section(method: str, model: bool) -> DrafterSettings:
    given: dict[str, Any] = {"method": method, "num_speculative_tokens": 4}
    return DrafterSettings.model_validate(given | ({"model": {"path": "/m"}} if model else {}))


def test_methods_of_some_vllm_are_valid_and_unknown_ones_warn() -> None:
    for method, model in (("mtp", True), ("mtp", False), ("dspark", True), ("suffix", False),
                          ("mlp_speculator", True), ("qwen3_next_mtp", False)):  # fmt: skip
        assert section(method, model).warnings() == []
    (warning,) = section("dflsh", True).warnings()
    assert "did you mean dflash?" in warning
    assert "the built vLLM decides" in warning


def asked(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_folder_is_checked_without_target_and_method(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MEDUSA))
    code, found = asked("drafter", "check", tmp_path, "--tokens", 5)
    assert code == 6
    said = {one["name"]: one["verdict"] for one in found["configs"][0]["checks"]}
    assert (said["draft_tokens"], said["hidden_size"]) == ("error", "unknown")


def test_a_file_that_does_not_say_its_method(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    code, found = asked("drafter", "check", tmp_path / "config.json")
    assert code == 11
    (said,) = found["configs"][0]["checks"]
    assert (said["name"], said["verdict"]) == ("method", "unknown")


@pytest.mark.parametrize("name", ["gemma-mtp", "dspark", "suffix"])
def test_profiles_with_newer_methods(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(FIELD / "19-gemma4-mtp-model")
    code, found = asked("profile", "validate", name)
    assert (code, found["files"][0]["valid"], found["files"][0]["warnings"]) == (0, True, [])


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers())


@given(
    st.dictionaries(
        st.sampled_from(["model", "architectures", "hidden_size", "vocab_size", "num_heads",
                         "n_predict", "eagle_config", "speculators_model_type", "model_type",
                         "eagle_aux_hidden_state_layer_ids", "transformer_layer_config"]),
        VALUES | st.dictionaries(st.sampled_from(["architectures", "hidden_size"]), VALUES),
    ),
    st.sampled_from(sorted(methods.METHODS)),
)  # fmt: skip
def test_no_config_breaks_a_check(config: dict[str, Any], method: str) -> None:
    methods.guessed(config)
    check(config, Circumstances(TARGET, method, 4))
