"""The steps that there are: each file of this folder that defines one."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from types import ModuleType

import deployctl.steps
from deployctl.config.base import Settings
from deployctl.steps.interface import Phase, Step

PHASES: tuple[Phase, ...] = ("stage", "switch", "gate")


@functools.cache
def steps() -> Mapping[str, Step]:
    """Every step by its name, in the order of phases and names."""
    names = [found.name for found in pkgutil.iter_modules(deployctl.steps.__path__)]
    modules = [importlib.import_module(f"{deployctl.steps.__name__}.{name}") for name in names]
    found = [kind() for module in modules for kind in _defined(module)]
    found.sort(key=lambda step: (PHASES.index(step.phase), step.name))
    return {step.name: step for step in found}


def _defined(module: ModuleType) -> list[type[Step]]:
    return [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Step)
        and kind.__module__ == module.__name__
        and not inspect.isabstract(kind)
    ]


def options() -> dict[str, type[Settings]]:
    """What each step may be given in a playbook, by its name."""
    return {name: step.options for name, step in steps().items()}


def names(phase: Phase) -> frozenset[str]:
    """The names of the steps of a phase."""
    return frozenset(name for name, step in steps().items() if step.phase == phase)


def makers(*products: str) -> frozenset[str]:
    """The names of the steps that make any of these."""
    return frozenset(name for name, step in steps().items() if step.produces & {*products})


def making(*products: str) -> tuple[Step, ...]:
    """The steps that make these, in the order in which they are named here."""
    return tuple(
        step for product in products for step in steps().values() if product in step.produces
    )
