"""What a built vLLM knows: read from its source on the host, or from tables of its versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

Version = tuple[int, ...]

SINCE: Mapping[str, Version] = {
    "attention_backend": (0, 21),
    "draft_sample_method": (0, 21),
    "disable_eagle_block_drop": (0, 30),
}
"""Keys of the speculative config by the first version that knows them (20 wheels, 0.19 to 0.33)."""
FIRST_DFLASH: Version = (0, 20)
NON_CAUSAL: tuple[tuple[Version, frozenset[str]], ...] = (
    ((0, 20), frozenset({"FLASH_ATTN", "FLEX_ATTENTION"})),
    ((0, 24), frozenset({"FLASH_ATTN", "FLEX_ATTENTION", "FLASHINFER", "TRITON_ATTN"})),
)
"""Attention backends that can do DFlash's non-causal attention, from a version on."""


@dataclass(frozen=True)
class Knowledge:
    """What one built vLLM knows; None is unknown. `options` are those of `vllm serve`, without
    dashes; `non_causal` the attention backends that can attend in both directions."""

    version: Version | None = None
    speculative_keys: frozenset[str] | None = None
    architectures: frozenset[str] | None = None
    methods: frozenset[str] | None = None
    options: frozenset[str] | None = None
    non_causal: frozenset[str] | None = None

    def knows_key(self, key: str) -> bool | None:
        """Whether its speculative config has this key."""
        if self.speculative_keys is not None:
            return key in self.speculative_keys
        if self.version is not None and key in SINCE:
            return self.version >= SINCE[key]
        return None

    def knows_option(self, name: str) -> bool | None:
        """Whether `vllm serve` has this option."""
        return None if self.options is None else name in self.options

    def knows_method(self, name: str) -> bool | None:
        """Whether it has this drafting method."""
        return None if self.methods is None else name in self.methods

    def knows_dflash(self) -> bool | None:
        """Whether DFlash is among its drafting methods."""
        if self.methods is not None:
            return "dflash" in self.methods
        return None if self.version is None else self.version >= FIRST_DFLASH

    def non_causal_backends(self) -> frozenset[str] | None:
        """Attention backends that DFlash can use on a GPU."""
        if self.non_causal is not None:
            return self.non_causal
        if self.version is None:
            return None
        fitting = [names for since, names in NON_CAUSAL if self.version >= since]
        return fitting[-1] if fitting else frozenset()


def version(text: str | None) -> Version | None:
    """A release's version as numbers. A development version says nothing about age: None."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:rc\d+|\.post\d+)?(?:\+\w+)?", text or "")
    return tuple(int(part) for part in found.groups(default="0")) if found else None


def probe_source() -> str:
    """The module that reads an installed vLLM, to be run on its host; its function is `know`."""
    here = resources.files("deployctl.vllm.serving")
    return here.joinpath("probe_knowledge.py").read_text("utf-8")


def read(release: str | None, answer: Mapping[str, Any] | None = None) -> Knowledge:
    """Put together what the wanted release says and what the probe of the build answered; where
    the source is not a release, the version that was built counts."""
    told = answer or {}

    def names(key: str) -> frozenset[str] | None:
        return None if told.get(key) is None else frozenset(told[key])

    return Knowledge(
        version(release or told.get("version")),
        names("speculative_keys"),
        names("architectures"),
        names("methods"),
        names("options"),
        names("non_causal"),
    )
