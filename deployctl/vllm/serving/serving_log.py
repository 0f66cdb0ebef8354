"""What a server's log tells about how it drafts: the model runner and the attention backend."""

from __future__ import annotations

import re
from typing import Literal

V2 = re.compile(r"Using V2 Model Runner|Using Eagle3 auxiliary layers from config", re.IGNORECASE)
V1 = re.compile(
    r"using the V1 model runner|Using auxiliary layers from speculative config", re.IGNORECASE
)
BACKEND = re.compile(
    r"Using (?:AttentionBackendEnum\.)?"
    r"(FLASH_ATTN|FLASHINFER|FLEX_ATTENTION|TRITON_ATTN|Flash ?Attention|FlashInfer|Triton)\w* "
    r"(?:attention )?backend",
    re.IGNORECASE,
)


def runner(log: str) -> Literal["V1", "V2"] | None:
    """The model runner; None where no line says it."""
    if V1.search(log):
        return "V1"
    return "V2" if V2.search(log) else None


def backend(log: str) -> str | None:
    """The attention backend as the log names it; None where no line says it."""
    found = BACKEND.search(log)
    return found[1] if found else None
