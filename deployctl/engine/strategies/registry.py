"""The strategies that there are, by the names that a profile gives them."""

from __future__ import annotations

from deployctl.config.profile import Profile
from deployctl.engine.strategies.interface import Strategy
from deployctl.engine.strategies.recreate import Recreate

STRATEGIES: dict[str, Strategy] = {one.name: one for one in (Recreate(),)}


def strategy(profile: Profile) -> Strategy:
    """The strategy of a profile. Blue-green's slots are turned host by host, as recreate does."""
    return STRATEGIES.get(profile.switch.strategy, STRATEGIES[Recreate.name])
