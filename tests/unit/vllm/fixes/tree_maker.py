"""Small trees in our own words, with the shapes of vLLM that the probes look for."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

SPECULATIVE = """
class SpeculativeConfig:
    method: str = "none"
    disable_eagle_block_drop: bool = False

    def use_eagle(self) -> bool:
        return self.method in ("eagle", "eagle3", "mtp", "dflash")

    def use_dflash(self) -> bool:
        return self.method == "dflash"

    def uses_draft_model(self) -> bool:
        return self.method == "draft_model"
"""
VLLM_CONFIG = """
class VllmConfig:
    speculative_config: object = None
"""
RESOLVER = """
def aux_layers(spec):
    config = spec.draft_model_config.hf_config
    found = getattr(config, "eagle_aux_hidden_state_layer_ids", None)
    if not found:
        dflash = getattr(config, "dflash_config", None) or {}
        found = @ids@
    return tuple(found) if found else None
"""
RAW = 'dflash.get("target_layer_ids")'
SHIFTED = '[i + 1 for i in dflash.get("target_layer_ids")]'
ATTENTION = """
class DFlashQwen3Attention:
    def __init__(self, num_kv_heads, sliding_window=None, **_):
        self.attn = Attention(1, num_kv_heads=num_kv_heads@window@)
"""
SCHEDULER = """
class Scheduler:
    def __init__(self, vllm_config):
        spec = vllm_config.speculative_config
        self.num_spec_tokens = self.num_lookahead_tokens = 0
        self.drop = False
        if spec:
            self.num_spec_tokens = spec.num_speculative_tokens
@body@
        self.manager = KVCacheManager(use_eagle=self.drop)

    def schedule(self):
        while True:
            load_kv_async = self.connector.wants()
            slots = @slots@
            self.manager.allocate_slots(request, num_lookahead_tokens=slots)
"""
EAGLE = """
            if spec.use_eagle():
                self.drop = True
                self.num_lookahead_tokens = self.num_spec_tokens
"""


def attention(window: str = ", per_layer_sliding_window=sliding_window") -> str:
    return ATTENTION.replace("@window@", window)


def layer(expression: str, before: str = "") -> str:
    """A decoder layer that hands a window to its attention."""
    return f"""
class DecoderLayer:
    def __init__(self, vllm_config, *, config, layer_idx):
{indent(dedent(before), " " * 8)}
        self.attention = DFlashQwen3Attention(num_kv_heads=1, sliding_window={expression})
"""


def scheduler(body: str = EAGLE, slots: str = "self.num_lookahead_tokens") -> str:
    return SCHEDULER.replace("@body@", body).replace("@slots@", slots)


def make(folder: Path, **changes: str | None) -> Path:
    """A tree; `changes` replace files (`__` for `/`), None leaves one out."""
    files: dict[str, str | None] = {
        "__init__": "",
        "_version": "__version__ = version = '0.0.1'",
        "config__speculative": SPECULATIVE,
        "config__vllm": VLLM_CONFIG,
        "v1__worker__gpu_model_runner": RESOLVER.replace("@ids@", SHIFTED),
        "model_executor__models__qwen3_dflash": attention(""),
        "v1__core__sched__scheduler": scheduler(),
        **changes,
    }
    for name, text in files.items():
        if text is None:
            continue
        path = folder / "vllm" / (name.replace("__", "/") if name != "__init__" else name)
        path = path.with_name(path.name + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
