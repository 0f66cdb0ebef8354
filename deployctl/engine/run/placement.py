"""Where each unit of a profile belongs, and which of them serve one copy of the model. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.steps.identity import replica_unit
from deployctl.steps.member import Role

SERVER = "server"
"""The name of a profile's only unit."""


@dataclass(frozen=True)
class Placement:
    """Where one unit belongs. `gpus` are all of the host's where None."""

    host: HostSettings
    unit: str
    role: Role
    group: str
    rank: int
    port: int
    gpus: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Group:
    """The placements that serve one copy of the model together, the head's first. They start, are
    judged, become current and go back as one; what they commit is in the ledger of the head."""

    name: str
    placements: tuple[Placement, ...]

    @property
    def head(self) -> Placement:
        return self.placements[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order of their ranks."""
        return tuple(placed.host.name for placed in self.placements)


def placements(profile: Profile) -> tuple[Placement, ...]:
    """Every unit of a profile, in the order of its hosts."""
    if profile.group is None:
        return tuple(_alone(profile, host) for host in profile.hosts)
    serve = profile.serve
    gpus = None if serve.gpus is None else tuple(serve.gpus)
    found = []
    for host in profile.hosts:
        names = [one.name for one in profile.grouped(host.name)]
        rank, role = names.index(host.name), _role(names.index(host.name))
        named = profile.name if len(profile.heads) == 1 else names[0]
        found.append(Placement(host, SERVER, role, named, rank, serve.port, gpus))
    return tuple(found)


def _role(rank: int) -> Role:
    return "worker" if rank else "head"


def _alone(profile: Profile, host: HostSettings) -> Placement:
    unit, serve = replica_unit(host.replica), profile.of_replica(host).serve
    gpus = None if serve.gpus is None else tuple(serve.gpus)
    return Placement(host, unit, "server", host.name, 0, serve.port, gpus)


def groups(placed: tuple[Placement, ...]) -> tuple[Group, ...]:
    """The placements by their group, in order; within one by rank."""
    names = dict.fromkeys(one.group for one in placed)
    return tuple(
        Group(name, tuple(sorted((p for p in placed if p.group == name), key=lambda p: p.rank)))
        for name in names
    )
