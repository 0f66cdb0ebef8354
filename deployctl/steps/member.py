"""A host's part in a group: its rank, and what it shares with the other ranks while they work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["server", "head", "worker", "router"]
"""What a placement is to its group: it serves alone, leads or joins others, or routes to them."""


TOGETHER = "all ranks of a group end together"
SEE = "see the failure of that rank"
"""Why a rank failed that another one has taken along, and what to do then."""


@dataclass(frozen=True)
class Member:
    """One rank of a group; `hosts`, `addresses` and `interfaces` are in the order of the ranks, an
    interface None where it is found by its address."""

    rank: int
    hosts: tuple[str, ...]
    addresses: tuple[str, ...]
    interfaces: tuple[str | None, ...]

    @property
    def role(self) -> Role:
        return "worker" if self.rank else "head"

    @property
    def head(self) -> str:
        """The address of rank 0."""
        return self.addresses[0]

    @property
    def address(self) -> str:
        return self.addresses[self.rank]

    def others(self) -> list[int]:
        """Every rank but this one."""
        return [rank for rank in range(len(self.hosts)) if rank != self.rank]

    def named(self, rank: int) -> str:
        """A rank as people find it."""
        return f"rank {rank} ({self.hosts[rank]})"


class PeerFailed(Exception):
    """Another rank failed, or takes no part any more: `host` is its host, `why` its failure."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"{host}: {why}" if not why.startswith(host) else why)
        self.host = host
        self.why = why

    @property
    def words(self) -> str:
        """Its failure, where its host is named besides."""
        return self.why.removeprefix(f"{self.host}: ")


def first_to_fail(member: Member, error: PeerFailed) -> str:
    """The rank that failed before others did, with its own words."""
    return f"{member.named(member.hosts.index(error.host))} failed first: {error.words}"


class Peers(Protocol):
    """What the ranks of a group report to each other during a run, by host."""

    def tell(self, key: str, value: Any) -> None:
        """Report something to the others."""

    def told(self, key: str) -> Mapping[str, Any]:
        """What the ranks have reported so far."""

    def meet(self, key: str, value: Any = None) -> Mapping[str, Any]:
        """Report something and wait until all have; what they reported. Raises `PeerFailed`."""

    def check(self) -> None:
        """Raise `PeerFailed` where another rank has failed."""


class NoPeers:
    """For a server on one host."""

    def tell(self, key: str, value: Any) -> None:
        return

    def told(self, key: str) -> Mapping[str, Any]:
        return {}

    def meet(self, key: str, value: Any = None) -> Mapping[str, Any]:
        return {}

    def check(self) -> None:
        return


Differing = tuple[str, Any, str, Any]
"""Two hosts, and what each of them has."""


def differing(told: Mapping[str, Any], of: Callable[[Any], Any]) -> Differing | None:
    """The first host, and the first whose part of the reports differs from its; None where all
    say the same."""
    first, *others = told
    for host in others:
        if of(told[host]) != of(told[first]):
            return first, of(told[first]), host, of(told[host])
    return None
