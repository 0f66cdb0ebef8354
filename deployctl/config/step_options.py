"""What a playbook says to its steps: `{step: clean, with: {scope: container}}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from deployctl.config import validation_errors
from deployctl.config.base import Settings
from deployctl.config.document import Value
from deployctl.config.problems import Problem

Options = Mapping[str, type[Settings]]
"""The steps that there are, by name, with what each may be given."""


def problems(playbook: Value, known: Options) -> Iterator[Problem]:
    """What is wrong with the options of a playbook's steps, each with its place."""
    steps = playbook.child("steps")
    for index, step in enumerate(steps.items if steps is not None else ()):
        name, given = step.child("step"), step.child("with")
        if name is None or given is None or not isinstance(given.content, dict):
            continue
        model = known.get(str(name.content))
        if model is None:
            continue
        try:
            model.model_validate(given.plain())
        except ValidationError as error:
            for problem in validation_errors.problems(error, given, model):
                yield replace(problem, path=f"steps.{index}.with.{problem.path}")
