"""Where a rank of a group is on its way to the others, read from its log (vLLM 0.32, Ray 2.60).

A rank that waits for the others says nothing more, and vLLM's own limits are tens of minutes.
"""

from __future__ import annotations

import re
from typing import Literal

from deployctl.vllm.logs.lines import bare

Stage = Literal["starting", "waiting", "met"]
"""starting: not there yet · waiting: for the other ranks · met: all of them were there."""

_WAITING = re.compile(r"distributed_init_method=tcp://")
_NODES = re.compile(r"Ray: waiting: ")
_MET = re.compile(
    r"rank \d+ in world size \d+ is assigned as|Ray: all nodes have joined|Ray runtime started"
)
"""Ray's own line is a worker's last word; on the head it comes before any other node."""


def stage(text: str, before: Stage = "starting") -> Stage:
    """How far a rank is after more of its log."""
    for line in text.splitlines():
        said = bare(line)
        if _MET.search(said):
            before = "met"
        elif _NODES.search(said) or (before == "starting" and _WAITING.search(said)):
            before = "waiting"
    return before
