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
    """What one built vLLM knows; None is unknown."""

    version: Version | None = None
    speculative_keys: frozenset[str] | None = None
    architectures: frozenset[str] | None = None

    def knows_key(self, key: str) -> bool | None:
        """Whether its speculative config has this key."""
        if self.speculative_keys is not None:
            return key in self.speculative_keys
        if self.version is not None and key in SINCE:
            return self.version >= SINCE[key]
        return None

    def non_causal_backends(self) -> frozenset[str] | None:
        """Attention backends that DFlash can use on a GPU."""
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
    """Put together what the wanted release says and what the probe of the build answered."""
    told = answer or {}
    keys, names = told.get("speculative_keys"), told.get("architectures")
    return Knowledge(
        version(release),
        None if keys is None else frozenset(keys),
        None if names is None else frozenset(names),
    )
