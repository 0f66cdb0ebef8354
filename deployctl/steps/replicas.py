"""What is wanted of one of several replicas on a host, and which of its units are whose. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.steps.identity import replica_number, replica_unit
from deployctl.steps.interface import Deployment


def placed(profile: Profile, host: HostSettings, **more: Any) -> Deployment:
    """What is wanted of one host, or of one of several replicas on it: with its port, GPUs and
    unit."""
    own = profile.of_replica(host)
    return Deployment(own, host, unit=replica_unit(host.replica), **more)


def own_units(wanted: Deployment, known: Iterable[str]) -> list[str]:
    """The units of a host that belong to this replica; the first one also has those that are not
    replicas."""
    most = wanted.profile.replicas.per_host

    def number(unit: str) -> int:
        found = replica_number(unit) or 1
        return found if found <= most else 1

    return [unit for unit in known if number(unit) == wanted.host.replica]


def surplus(wanted: Deployment, known: Iterable[str]) -> list[str]:
    """Units of replicas that the profile does not have any more; each host's first replica ends
    them."""
    most = wanted.profile.replicas.per_host
    return [unit for unit in own_units(wanted, known) if (replica_number(unit) or 1) > most]
