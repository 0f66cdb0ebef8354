"""What `clean` may be asked for, and what of it was."""

from __future__ import annotations

from deployctl.config.base import Settings
from deployctl.config.clean import Scope
from deployctl.steps.interface import Deployment

CLEAN = "clean"
"""The step's name."""


class CleanOptions(Settings):
    """clean: whose processes may be stopped, and what else."""

    scope: Scope = "ours"
    """Whose processes: of this profile, of the container, or of all on the profile's GPUs."""
    reset: bool = False
    """Reset the GPUs afterwards, on the node, where no process uses them."""
    stop_unit: bool = False
    """Stop the profile's own server too."""


def scope(wanted: Deployment) -> Scope:
    """Whose processes may be stopped; the profile's own scope where nothing else was asked."""
    asked: Scope = wanted.option(CLEAN, "scope", wanted.profile.clean.scope)
    return asked


def resets(wanted: Deployment) -> bool:
    """Whether the GPUs are to be reset."""
    return bool(wanted.option(CLEAN, "reset"))


def stops_unit(wanted: Deployment) -> bool:
    """Whether the profile's server is to be stopped although it runs the wanted release."""
    return bool(wanted.option(CLEAN, "stop_unit"))
