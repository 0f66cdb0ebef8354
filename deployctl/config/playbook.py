"""A playbook: an ordered list of steps with their options."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from deployctl.config.base import NAME, Settings
from deployctl.config.hooks import HookSettings


class StepSettings(Settings):
    """One step of a playbook: `clean`, or `{step: clean, with: {scope: container}}`."""

    step: str
    """The step's name."""
    options: dict[str, Any] = Field(default={}, alias="with")
    """Options of the step, such as `{scope: container}` for clean; it refuses those it does not
    have."""
    before: list[HookSettings] = []
    """Commands before the step; not where there is nothing to do."""
    after: list[HookSettings] = []
    """Commands once the step has passed; not where there was nothing to do."""

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        return {"step": value} if isinstance(value, str) else value


class Playbook(Settings):
    """A named order of steps."""

    name: str = Field(pattern=NAME)
    """The playbook's name in reports; the file's when absent."""
    description: str = ""
    """A line about the playbook for `deployctl profile list`."""
    release: Literal["wanted", "previous"] = "wanted"
    """The release to serve: the current profile's, or the previous one with its original
    configuration.
    """
    steps: list[StepSettings] = Field(min_length=1)
    """Steps in their order, each a name or a mapping with options and commands around it."""
    after: list[HookSettings] = []
    """Commands at the run's end on every host, whatever its outcome; they cannot change it."""
