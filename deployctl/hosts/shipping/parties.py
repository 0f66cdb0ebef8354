"""Who takes part in a shipment, and how far each of the receivers is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.errors import HostError
from deployctl.hosts.session import Session

Way = str
CONTROLLER, RELAY = "controller", "relay"
MOST_RANGES = 1000
"""Of pieces that are named to a sender at once; the rest is asked for afterwards."""


@dataclass(frozen=True)
class Party:
    """A host with its agent. `address` is where other hosts reach it; empty where none is known."""

    settings: HostSettings
    session: Session
    address: str = ""

    @property
    def name(self) -> str:
        return self.settings.name


@dataclass(frozen=True)
class Goods:
    """A folder of the source, as its agent described it."""

    place: str
    note: str
    manifest: Mapping[str, Any]
    total: int

    @property
    def name(self) -> str:
        """What tells these very bytes from others: the first digits of a digest of the manifest."""
        from deployctl.hosts.shipping.key import digest

        return digest(self.manifest)

    def size(self, pieces: Iterable[int]) -> int:
        """Bytes of these pieces."""
        piece = int(self.manifest["piece"])
        return sum(min(piece, self.total - number * piece) for number in pieces)


@dataclass
class Receiver:
    """One receiver's part: what it lacks yet, and why it takes no part any more."""

    party: Party
    folder: str
    missing: set[int] = field(default_factory=set)
    kept: int = 0
    """Pieces that were there from an earlier attempt."""
    damaged: dict[int, int] = field(default_factory=dict)
    """How often a piece arrived with other bytes than promised, by number."""
    failure: HostError | None = None
    ways: list[Way] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.party.name

    @property
    def waits(self) -> bool:
        return self.failure is None and bool(self.missing)


Tell = Callable[[Receiver, int], None]
"""Called with the number of bytes that came to a receiver."""


def ranges(pieces: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as ranges from first to last, `MOST_RANGES` at most. Pure."""
    found: list[tuple[int, int]] = []
    for number in sorted(pieces):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        elif len(found) == MOST_RANGES:
            break
        else:
            found.append((number, number))
    return found


def union(receivers: Sequence[Receiver]) -> set[int]:
    """The pieces that any of them lacks. Pure."""
    return set().union(*(one.missing for one in receivers))
