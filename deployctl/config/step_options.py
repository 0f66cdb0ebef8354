"""What a playbook may say to a step: `{step: clean, with: {scope: container}}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from deployctl.config import validation_errors
from deployctl.config.base import Settings
from deployctl.config.clean import Scope
from deployctl.config.document import Value
from deployctl.config.problems import Problem


class NoOptions(Settings):
    """A step that takes none."""


class CleanOptions(Settings):
    """clean: whose processes may be stopped, and what else."""

    scope: Scope = "ours"
    """Whose processes: of this profile, of the container, or of all on the profile's GPUs."""
    reset: bool = False
    """Reset the GPUs afterwards, on the node, where nobody uses them."""
    stop_unit: bool = False
    """Stop the profile's own server too."""


class FetchOptions(Settings):
    """fetch: how thoroughly what lies there is compared."""

    deep: bool = False
    """Compare the files' checksums, not their sizes alone."""


class VerifyOptions(Settings):
    """verify: also what was verified before, and by every file's hash."""

    always: bool = False
    """Verify again what was verified before."""
    deep: bool = False
    """Compare every installed file's hash, not its size alone."""


class LaunchOptions(Settings):
    """launch: when to start the server anew."""

    always: bool = False
    """Although the wanted release runs."""


class AcceptanceOptions(Settings):
    """acceptance: how far below the last good release is still accepted."""

    tolerance: float | None = Field(default=None, ge=0)
    """Mean acceptance length that may be missing; the profile's own when absent."""


class LosslessOptions(Settings):
    """lossless: how many prompts are compared."""

    prompts: int = Field(default=1, ge=1)
    """Prompts whose answers are compared."""


class BenchOptions(Settings):
    """bench: the levels, the requests at each, and what to compare with."""

    concurrencies: list[Annotated[int, Field(ge=1)]] = Field(default=[1], min_length=1)
    """Requests at a time, level by level."""
    requests: int = Field(default=1, ge=1)
    """Requests at each level."""
    compare: Literal["plain"] | None = None
    """Measure the same release without speculation too."""


OPTIONS: Mapping[str, type[Settings]] = {
    "clean": CleanOptions,
    "fetch": FetchOptions,
    "verify": VerifyOptions,
    "launch": LaunchOptions,
    "acceptance": AcceptanceOptions,
    "lossless": LosslessOptions,
    "bench": BenchOptions,
}
"""By step; the others take none. What is not given is the step's own business."""


def problems(playbook: Value) -> Iterator[Problem]:
    """What is wrong with the options of a playbook's steps, each with its place."""
    steps = playbook.child("steps")
    for index, step in enumerate(steps.items if steps is not None else ()):
        name, given = step.child("step"), step.child("with")
        if name is None or given is None or not isinstance(given.content, dict):
            continue
        model = OPTIONS.get(str(name.content), NoOptions)
        try:
            model.model_validate(given.plain())
        except ValidationError as error:
            for problem in validation_errors.problems(error, given, model):
                yield replace(problem, path=f"steps.{index}.with.{problem.path}")
