"""Rolling: a few replicas at a time, in the place of what they serve; the others go on serving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from deployctl.config.profile import Profile
from deployctl.engine.strategies.interface import GroupPlan, Handover, Strategy, Wave, in_waves


class Rolling(Strategy):
    """Wave after wave, those first that serve nothing. `at_once` is a number of groups, or a share
    of all such as 25%."""

    name = "rolling"
    together = True

    def __init__(self, at_once: int | str = 1) -> None:
        self._at_once = at_once

    @classmethod
    def of(cls, profile: Profile) -> Self:
        return cls(profile.roll.at_once)

    def waves(self, plans: Sequence[GroupPlan]) -> tuple[Wave, ...]:
        idle = [plan for plan in plans if not plan.serves]
        serving = [plan for plan in plans if plan.serves]
        if not serving:
            return in_waves(idle)
        most = number(self._at_once, len(plans))
        # One that serves is left alone, where there is another.
        few = max(1, min(most, len(serving) - 1))
        return (*in_waves(idle, most), *in_waves(serving, few))

    def handover(self, live: str | None, stays: bool) -> Handover:
        return Handover(routed=True)


def number(at_once: int | str, groups: int) -> int:
    """How many groups switch at the same time: of a share as many as are whole, at least one."""
    return max(1, share(at_once, groups))


def share(of: int | str, groups: int) -> int:
    """A number of groups, or as many as are whole of a share such as 25%."""
    return of if isinstance(of, int) else int(of.rstrip("%")) * groups // 100
