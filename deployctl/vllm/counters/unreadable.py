"""What cannot be counted in a server's metrics."""

from __future__ import annotations

LARGEST = 1 << 53
"""Beyond it a float counts no single tokens."""


class Unreadable(Exception):
    """The text is not a Prometheus exposition, or its counters are no counts; the message says
    where it breaks."""


def whole(value: float, name: str) -> int:
    """A counter's value as a count; raises `Unreadable` for any other value."""
    if not 0 <= value < LARGEST:
        raise Unreadable(f"{name} is {value:g}, which is not a count")
    return int(value)
