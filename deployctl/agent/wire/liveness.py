"""How a server is watched for life, and what was seen."""

from __future__ import annotations

from typing import Optional, TypedDict


class Liveness(TypedDict):
    """What a server is asked. After `failures` looks in a row without a sign of life it is killed
    and restarted; `interval` and `completion` in seconds."""

    interval: float
    completion: float
    failures: int
    url: str
    model: str


class Look(TypedDict):
    """One look at a server: Unix time, a verdict of `supervision.liveness`, and why."""

    time: float
    verdict: str
    why: str


class LivenessState(TypedDict):
    """What a supervisor records: `failures` in a row by now, `restarts` of servers that hung."""

    on: bool
    interval: float
    allowed: int
    last: Optional[Look]
    failures: int
    restarts: int
