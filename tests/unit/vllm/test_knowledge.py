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


SPECULATIVE = """
Drafting = Literal["dflash"]
SpeculativeMethod = Literal["ngram", Drafting]
SampleMethod = Literal["strict"]
class SpeculativeConfig:
    method: str
"""
ARGUMENTS = """
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--shutdown-timeout", "-s", type=int)
        group.add_argument(*names)
"""
FRONT_END = """
class BaseFrontendArgs:
    enable_server_load_tracking: bool = False
    plain = 1
"""
BACKENDS = """
class AttentionBackendEnum(Enum):
    FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
    FLASH_ATTN_MORE = (
        "vllm.v1.attention.backends.more.MoreBackend"
    )
    FLASHINFER = "vllm.v1.attention.backends.flashinfer.FlashInferBackend"
    TORCH_SDPA = ""
"""
ATTENTION = {
    "backend.py": "class AttentionBackend:\n"
    "    def supports_non_causal(cls):\n        return False\n",
    "backends/flash_attn.py": "class FlashAttentionBackend(AttentionBackend):\n"
    "    def supports_non_causal(cls):\n        return cls.version() > 1\n",
    "backends/more.py": "class MoreBackend(FlashAttentionBackend):\n    pass\n",
    "backends/flashinfer.py": "class FlashInferBackend(AttentionBackend):\n    pass\n",
    "backends/registry.py": BACKENDS,
}


def write(environment: Path, files: dict[str, str]) -> None:
    package = environment / "lib" / "python3.12" / "site-packages" / "vllm"
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)


def test_the_options_of_serve_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"engine/arg_utils.py": ARGUMENTS, "entrypoints/x/cli_args.py": FRONT_END})
    known = knowledge.read(None, probe(tmp_path))
    assert known.options == frozenset({"shutdown-timeout", "enable-server-load-tracking"})
    assert known.knows_option("shutdown-timeout") is True and known.knows_option("plain") is False
    write(tmp_path, {"entrypoints/x/cli_args.py": "class Broken("})
    assert knowledge.read(None, probe(tmp_path)).knows_option("shutdown-timeout") is None


def test_methods_are_read_with_the_types_that_they_name(tmp_path: Path) -> None:
    write(tmp_path, {"config/speculative.py": SPECULATIVE})
    known = knowledge.read(None, probe(tmp_path))
    assert known.methods == frozenset({"ngram", "dflash"}) and known.knows_dflash() is True


def test_backends_say_themselves_whether_they_attend_in_both_directions(tmp_path: Path) -> None:
    write(tmp_path, {f"v1/attention/{name}": text for name, text in ATTENTION.items()})
    known = knowledge.read(None, probe(tmp_path))
    assert known.non_causal_backends() == frozenset({"FLASH_ATTN", "FLASH_ATTN_MORE"})
    write(tmp_path, {"v1/attention/backends/flash_attn.py": "", "v1/attention/backend.py": ""})
    assert knowledge.read(None, probe(tmp_path)).non_causal_backends() is None


def test_a_patched_release_is_known_by_its_version(tmp_path: Path) -> None:
    write(tmp_path, {"_version.py": "__version__ = version = '0.20.1'\n"})
    known = knowledge.read(None, probe(tmp_path))
    assert known.version == (0, 20, 1)
    assert known.non_causal_backends() == frozenset({"FLASH_ATTN", "FLEX_ATTENTION"})
    write(tmp_path, {"_version.py": "__version__ = version = '0.1.dev3+g0123abc'\n"})
    assert knowledge.read(None, probe(tmp_path)).version is None
