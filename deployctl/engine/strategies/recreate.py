"""Recreate: what serves makes way, and its successor is started and judged in its place."""

from __future__ import annotations

from collections.abc import Sequence

from deployctl.engine.strategies.interface import GroupPlan, Strategy, Wave, in_waves


class Recreate(Strategy):
    """Every group by itself, all at once."""

    name = "recreate"

    def waves(self, plans: Sequence[GroupPlan]) -> tuple[Wave, ...]:
        return in_waves(plans)
