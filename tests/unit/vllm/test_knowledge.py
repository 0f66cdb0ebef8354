"""What an installed vLLM knows is read from its source; what cannot be read is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployctl.vllm.serving import knowledge

CONFIG = '''
from typing import Any

@config
class SpeculativeConfig:
    """Text."""
    method: str | None = None
    num_speculative_tokens: int = Field(default=None, gt=0)
    model: str | None = None
    plain = 3
    def check(self) -> Any:
        inner: int = 1
'''
REGISTRY = """
_TEXT_GENERATION_MODELS = {"Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM")}
_SPECULATIVE_DECODING_MODELS = {
    "DFlashDraftModel": ("qwen3_dflash", "DFlashQwen3ForCausalLM"),
    **_OTHER,
}
_PREVIOUSLY_SUPPORTED_MODELS = {"GoneForCausalLM": "0.9.0"}
"""


def probe(environment: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(knowledge.probe_source(), "<probe>", "exec"), names)
    found: dict[str, Any] = names["know"](str(environment))
    return found


def install(environment: Path, config: str, registry: str) -> None:
    package = environment / "lib" / "python3.12" / "site-packages" / "vllm"
    (package / "config").mkdir(parents=True)
    (package / "model_executor" / "models").mkdir(parents=True)
    (package / "config" / "speculative.py").write_text(config)
    (package / "model_executor" / "models" / "registry.py").write_text(registry)


def test_keys_and_architectures_are_read(tmp_path: Path) -> None:
    install(tmp_path, CONFIG, REGISTRY)
    known = knowledge.read("0.32.0", probe(tmp_path))
    assert known.speculative_keys == frozenset({"method", "num_speculative_tokens", "model"})
    assert known.architectures == frozenset({"Qwen3ForCausalLM", "DFlashDraftModel"})
    assert known.version == (0, 32, 0)


def test_what_cannot_be_read_is_unknown_not_empty(tmp_path: Path) -> None:
    for name, config in (("broken", "class SpeculativeConfig("), ("moved", "x = 1")):
        install(tmp_path / name, config, "_MODELS = make()")
        known = knowledge.read(None, probe(tmp_path / name))
        assert known.speculative_keys is None and known.architectures is None
        assert known.knows_key("method") is None
    assert knowledge.read(None, probe(tmp_path / "nothing")) == knowledge.Knowledge()
