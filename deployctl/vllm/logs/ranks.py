"""Where a rank of a group is on its way to the others, read from its log (vLLM 0.32).

A rank that waits for the others says nothing more, and vLLM's own limits are tens of minutes.
"""

from __future__ import annotations

import re
from typing import Literal

from deployctl.vllm.logs.lines import bare

Stage = Literal["starting", "waiting", "met"]
"""starting: not there yet · waiting: for the other ranks · met: all of them were there."""

_WAITING = re.compile(r"distributed_init_method=tcp://")
_MET = re.compile(r"rank \d+ in world size \d+ is assigned as")


def stage(text: str, before: Stage = "starting") -> Stage:
    """How far a rank is after more of its log."""
    for line in text.splitlines():
        said = bare(line)
        if _MET.search(said):
            return "met"
        if before == "starting" and _WAITING.search(said):
            before = "waiting"
    return before
