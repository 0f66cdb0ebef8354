"""A playbook: an ordered list of steps with their options."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from deployctl.config.base import NAME, Settings


class StepSettings(Settings):
    """One step of a playbook: `clean`, or `{step: clean, with: {scope: container}}`."""

    step: str
    options: dict[str, Any] = Field(default={}, alias="with")

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        return {"step": value} if isinstance(value, str) else value


class Playbook(Settings):
    """A named order of steps."""

    name: str = Field(pattern=NAME)
    description: str = ""
    steps: list[StepSettings] = Field(min_length=1)
