"""What a strategy is: from the plans of all groups to the waves in which they switch, and how each
of them switches. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from deployctl.config.profile import Profile
from deployctl.steps.identity import MAIN

Wave = tuple[str, ...]
"""The names of the groups that are switched at the same time."""


@dataclass(frozen=True)
class GroupPlan:
    """What a strategy must know of a group: whether it has anything to switch, and whether it
    serves a release that has passed."""

    group: str
    switches: bool
    serves: bool = False


@dataclass(frozen=True)
class Handover:
    """How one group gets a release: in which unit it is started, and which unit makes way once it
    serves; None where it takes the place of what its own unit serves.

    Where it is `routed`, a router leaves out a unit before that stops, and adds one once that has
    passed.
    """

    unit: str = MAIN
    retires: str | None = None
    routed: bool = False


class Strategy(ABC):
    """One way in which new releases take over from those that serve."""

    name: ClassVar[str]
    together: ClassVar[bool] = False
    """Whether a group's wave depends on the other groups: then none switches before all have
    staged, and a failure keeps the later waves from beginning."""
    beside: ClassVar[bool] = False
    """Whether a release is started beside the one that serves, and clients are led to it then."""
    sleeps: ClassVar[bool] = False
    """Whether the one that serves sleeps meanwhile, where it can."""

    @classmethod
    def of(cls, profile: Profile) -> Self:
        """The strategy as a profile wants it."""
        return cls()

    @abstractmethod
    def waves(self, plans: Sequence[GroupPlan]) -> tuple[Wave, ...]:
        """The groups that switch, wave after wave; those with nothing to switch are in none."""

    def handover(self, live: str | None, stays: bool) -> Handover:
        """How a group gets its release. `live` is the unit that serves, None where none does;
        `stays` whether that has the wanted release already."""
        return Handover()


def in_waves(plans: Sequence[GroupPlan], at_once: int | None = None) -> tuple[Wave, ...]:
    """The groups that switch, in their order, at most `at_once` of them at the same time."""
    found = tuple(plan.group for plan in plans if plan.switches)
    size = at_once or len(found) or 1
    return tuple(found[at : at + size] for at in range(0, len(found), size))
