"""The order in which a run would switch the hosts of a profile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.config.profile import Profile
from deployctl.engine.run.placement import groups, placements
from deployctl.engine.run.plan import HostPlan
from deployctl.engine.strategies.interface import GroupPlan
from deployctl.engine.strategies.registry import strategy


def order(profile: Profile, surveyed: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Hosts wave after wave, from what `survey` found; empty where none waits for another."""
    how = strategy(profile)
    plans: list[HostPlan] = [host["plan"] for host in surveyed if "plan" in host]
    if not how.together:
        return []
    hosts: dict[str, list[HostPlan]] = {}
    for placed in groups(placements(profile)):
        found = [one for one in plans if one.host in placed.hosts]
        if found:
            hosts[placed.name] = found
    wanted = [
        GroupPlan(
            name,
            any(one.switches for one in found),
            all(one.current is not None for one in found),
        )
        for name, found in hosts.items()
    ]
    return [[one.host for name in wave for one in hosts[name]] for wave in how.waves(wanted)]
