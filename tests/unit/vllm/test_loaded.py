"""The layers that a server reads are those that the config on disk means."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.vllm.drafters.loaded import layers

ZLAB = {"dflash_config": {"target_layer_ids": [1, 16, 31, 46, 61]}}
SPECULATORS = {
    "speculators_model_type": "dflash",
    "aux_hidden_state_layer_ids": [2, 17, 32, 47, 62],
}
V1 = "(Worker pid=3) INFO 11-30 00:18:40 [gpu_model_runner.py:5243] Using auxiliary layers from "
V1 += "speculative config: ({})\n"
V2 = "(Worker_TP0_EP0 pid=1159) INFO 09-04 10:59:30 [eagle3_utils.py:28] Using Eagle3 auxiliary "
V2 += "layers from config: ({})\n"


@pytest.mark.parametrize("line", [V1, V2])
@pytest.mark.parametrize(
    ("config", "said", "complaint"),
    [
        (ZLAB, "2, 17, 32, 47, 62", ""),
        (SPECULATORS, "2, 17, 32, 47, 62", ""),
        (ZLAB, "1, 16, 31, 46, 61", "lacks the layer offset"),
        (ZLAB, "1, 3, 5", "the config on disk means 2, 17, 32, 47, 62"),
    ],
)
def test_loaded_layers(line: str, config: dict[str, Any], said: str, complaint: str) -> None:
    found = layers("before\n" + line.format(said) + "after\n", config)
    assert found is not None
    assert complaint in found.complaint and bool(found.complaint) is bool(complaint)


def test_a_log_that_does_not_say_is_no_complaint() -> None:
    found = layers("nothing of that kind", ZLAB)
    assert found is not None and found.loaded is None and found.complaint == ""


def test_a_config_without_layers_is_not_compared() -> None:
    assert layers(V1.format("1, 2"), {"architectures": ["LlamaForCausalLMEagle3"]}) is None
