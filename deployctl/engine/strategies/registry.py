"""The strategies that there are, by the names that a profile gives them."""

from __future__ import annotations

from deployctl.config.profile import Profile
from deployctl.engine.strategies.blue_green import BlueGreen
from deployctl.engine.strategies.interface import Strategy
from deployctl.engine.strategies.recreate import Recreate
from deployctl.engine.strategies.rolling import Rolling
from deployctl.engine.strategies.sleep import Sleep

STRATEGIES: dict[str, type[Strategy]] = {
    one.name: one for one in (Recreate, Rolling, BlueGreen, Sleep)
}


def strategy(profile: Profile) -> Strategy:
    """The strategy of a profile."""
    return STRATEGIES[profile.switch.strategy].of(profile)
