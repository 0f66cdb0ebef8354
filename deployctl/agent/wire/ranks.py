"""What a host answers about itself and the other ranks of a group."""

from __future__ import annotations

from typing import List, Optional, TypedDict


class Place(TypedDict):
    """Where the others are to find this host; `ranks.place` describes it."""

    address: str
    interface: Optional[str]
    interfaces: List[str]
    time: float
    python: str


class Answered(TypedDict):
    """How many connections of the other ranks came."""

    callers: int


class Reached(TypedDict):
    """One port of another rank, tried from here; `ranks.reach` describes it. `error` is None where
    it answered."""

    address: str
    port: int
    seconds: float
    rate: Optional[float]
    error: Optional[str]
