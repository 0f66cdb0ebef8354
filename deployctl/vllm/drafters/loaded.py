"""What a server says that it loaded of its drafter, compared with the drafter's config."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.drafters.drafter_shape import shape

_LAYERS = re.compile(
    r"Using (?:Eagle3 )?auxiliary layers from (?:speculative )?config: [(\[]([\d, ]*)[)\]]"
)
"""V1's model runner and V2's (gpu_model_runner.py, spec_decode/eagle/eagle3_utils.py)."""


@dataclass(frozen=True)
class Layers:
    """The target's layers that the server reads, counted from 1 as its log counts them.

    `wanted` follows from the drafter's config on a vLLM with the layer offset, `without_offset`
    on one that lacks it. `loaded` is None where the log does not say.
    """

    loaded: tuple[int, ...] | None
    wanted: tuple[int, ...]
    without_offset: tuple[int, ...]

    @property
    def complaint(self) -> str:
        """What is wrong; empty where nothing is, or nothing is known."""
        if self.loaded is None or self.loaded == self.wanted:
            return ""
        found = ", ".join(map(str, self.loaded))
        if self.loaded == self.without_offset:
            return f"it reads layers {found}: this vLLM lacks the layer offset of DFlash"
        wanted = ", ".join(map(str, self.wanted))
        return f"it reads layers {found}, the config on disk means {wanted}"


def layers(log: str, config: Mapping[str, Any]) -> Layers | None:
    """Compare a server's log with its drafter's config; None for a config that names no layers."""
    drafter = shape(config)
    ids = drafter.layer_ids
    if not ids:
        return None
    said = _LAYERS.findall(log)
    loaded = tuple(int(n) for n in re.findall(r"\d+", said[-1])) if said else None
    plus = 1 - drafter.first_layer
    wanted = tuple(i + plus for i in ids)
    return Layers(loaded, wanted, tuple(ids) if plus else tuple(i - 1 for i in ids))
