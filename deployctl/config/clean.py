"""What a run may stop on a host before it launches."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deployctl.config.base import Duration, Settings

Scope = Literal["ours", "container", "gpu"]


class CleanSettings(Settings):
    """Only what is ours by default; widening is explicit and never includes system processes."""

    scope: Scope = "ours"
    """Whose processes may be stopped on the profile's GPUs: ours, foreign ones in its container
    too, or foreign ones anywhere."""
    grace: Duration = 20.0
    """From SIGTERM to SIGKILL; for the profile's own unit it is serve.stop_grace."""
    free_below_mib: int = Field(default=1024, ge=0)
    """A GPU whose memory in use is below this counts as free."""
    settle: Duration = 60.0
    """How long memory may go on falling after its holders are gone."""
    system: list[str] = []
    """Further process names that are never touched."""
