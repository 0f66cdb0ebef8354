"""How a new release takes over from the one that serves."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from deployctl.config.base import Duration, Settings


class SlotSettings(Settings):
    """One of two places for a release beside the other."""

    port: int = Field(ge=1, le=65535)
    """Where the release of this slot listens, on the loopback address."""
    gpus: list[int] | None = None
    """Its GPUs; serve.gpus when absent."""


class SwitchSettings(Settings):
    """recreate: stop, start, prove, on all hosts at once ·
    sleep: put what serves to sleep (vLLM's sleep mode, CUDA), start and prove on the same GPUs,
    then stop it; a failed gate wakes it. Needs host memory for its weights ·
    rolling: the same host after host, as `roll` says, each out of the router meanwhile ·
    blue-green: start in the other slot, prove, turn the front to it, drain, stop. Needs memory for
    two releases."""

    strategy: Literal["recreate", "rolling", "blue-green", "sleep"] = "recreate"
    """Whether the one that serves makes way first, or serves until its successor is proven;
    rolling by default where the profile has `router` or `roll`."""
    blue: SlotSettings | None = None
    """One slot for blue-green or sleep; for sleep at serve.port + 1 when absent."""
    green: SlotSettings | None = None
    """The other slot; for sleep at serve.port + 2 when absent."""
    drain: Duration = 60.0
    """How long requests in flight may go on after the switch; blue-green alone."""

    warm: Literal["auto"] | bool = "auto"
    """Whether the next server imports all it needs beside the one that serves, and waits: auto
    where memory allows, true wherever it can be, false never."""

    @model_validator(mode="after")
    def _two_slots(self) -> Self:
        slots = [slot for slot in (self.blue, self.green) if slot is not None]
        if self.strategy == "blue-green" and len(slots) < 2:
            raise ValueError("blue-green needs two slots: blue: {port: …} and green: {port: …}")
        if self.strategy == "sleep" and len(slots) == 1:
            raise ValueError("sleep takes both slots or none: blue: {port: …} and green: {port: …}")
        if self.strategy == "sleep" and any(slot.gpus is not None for slot in slots):
            raise ValueError("with sleep both slots are on serve.gpus: leave gpus out of them")
        if len(slots) == 2 and slots[0].port == slots[1].port:
            raise ValueError("the slots need ports of their own")
        return self

    def slots(self, port: int) -> tuple[SlotSettings, SlotSettings]:
        """Both slots, behind this port."""
        blue = self.blue or SlotSettings.model_construct(port=port + 1, gpus=None)
        return blue, self.green or SlotSettings.model_construct(port=port + 2, gpus=None)
