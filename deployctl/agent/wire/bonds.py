"""What holds the supervisors of a group's ranks together, as part of a start."""

from __future__ import annotations

from typing import TypedDict


class BondSpec(TypedDict):
    """Where the head's supervisor listens for those of the other ranks, and by what word they are
    known; `ranks` is how many there are, the head among them."""

    rank: int
    ranks: int
    address: str
    port: int
    token: str
