"""What a strategy is: from the plans of all groups to the waves in which they switch. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

Wave = tuple[str, ...]
"""The names of the groups that are switched at the same time."""


@dataclass(frozen=True)
class GroupPlan:
    """What a strategy must know of a group: whether it has anything to switch, and whether it
    serves a release that has passed."""

    group: str
    switches: bool
    serves: bool = False


class Strategy(ABC):
    """One way in which new releases take over from those that serve."""

    name: ClassVar[str]
    together: ClassVar[bool] = False
    """Whether a group's wave depends on the other groups: then none switches before all have
    staged, and a failure keeps the later waves from beginning."""

    @abstractmethod
    def waves(self, plans: Sequence[GroupPlan]) -> tuple[Wave, ...]:
        """The groups that switch, wave after wave; those with nothing to switch are in none."""
