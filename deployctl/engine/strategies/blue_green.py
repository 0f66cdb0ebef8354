"""Blue-green: a release is started and judged in the idle one of two units, beside what serves."""

from __future__ import annotations

from collections.abc import Sequence

from deployctl.engine.strategies.interface import GroupPlan, Handover, Strategy, Wave, in_waves
from deployctl.steps.identity import SLOTS


class BlueGreen(Strategy):
    """Every group by itself, all at once; within each, clients are led from one unit to the
    other."""

    name = "blue-green"
    beside = True

    def waves(self, plans: Sequence[GroupPlan]) -> tuple[Wave, ...]:
        return in_waves(plans)

    def handover(self, live: str | None, stays: bool) -> Handover:
        if live is None:
            return Handover(SLOTS[0], routed=True)
        if stays:
            return Handover(live, routed=True)
        return Handover(other(live), retires=live, routed=True)


def other(unit: str) -> str:
    """The unit beside this one."""
    return SLOTS[1 - SLOTS.index(unit)]
