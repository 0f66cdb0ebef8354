"""The memory of a profile's GPUs, measured to be free before a server is started there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.agent.wire.gpus import MemoryAt, Settled
from deployctl.hosts.operations import gpu
from deployctl.hosts.session import Call
from deployctl.steps.gpus import clearing
from deployctl.steps.gpus.gpu_snapshot import GpuSnapshot
from deployctl.steps.interface import Context

STILL = 3.0
"""Seconds without a change after which memory that others hold counts as settled."""


def settled(context: Context, now: GpuSnapshot, index: Mapping[str, str]) -> Settled:
    """What is in use on GPUs, by their UUID, once it is free or falls no more. `now` is a look
    after the last that was stopped had ended: where it shows all of them free, that is measured."""
    below = context.wanted.profile.clean.free_below_mib
    if now.resting:
        below = max(below, clearing.room(context.wanted, now))
    found = {one["uuid"]: one["memory_used"] for one in clearing.measured(now)}
    if all(amount is not None and amount < below for amount in found.values()):
        course: list[MemoryAt] = [{"seconds": 0.0, "memory": found}]
        return {"free": True, "memory": found, "seconds": 0.0, "course": course, "unknown": None}
    return _followed(context, index, below, any(now.on(uuid) for uuid in index))


def _followed(context: Context, index: Mapping[str, str], below: int, held: bool) -> Settled:
    clean = context.wanted.profile.clean

    def show(event: Mapping[str, Any]) -> None:
        mib = ", ".join(f"GPU {index[u]}: {m} MiB" for u, m in event["memory"].items())
        context.progress("memory", mib)

    settle = Call(
        gpu.settle,
        uuids=list(index),
        below=below,
        limit=clean.settle,
        still=STILL if held else clean.settle,
    )
    return context.node.follow(settle, show)
