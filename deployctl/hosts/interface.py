"""What a way of reaching a host must offer: start a program there and exchange bytes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deployctl.errors import HostError


@dataclass(frozen=True)
class Ending:
    """How a channel ended: the exit status if the far side sent one, and its stderr's tail."""

    status: int | None
    stderr: str


class Channel(Protocol):
    """The streams of one program running on a host."""

    def send(self, data: bytes) -> None:
        """Write to the program's standard input; raises OSError when the channel is gone."""

    def receive(self) -> bytes:
        """The next bytes of its standard output, blocking; empty at the end."""

    def ending(self) -> Ending:
        """How it ended; called after `receive` returned nothing."""

    def close(self) -> None:
        """End the program by the end of its input, or the channel where that takes some seconds;
        `receive` returns empty in whichever thread waits in it."""


class Transport(Protocol):
    """One way to a host. Implementations: `local`, `ssh`, `container`."""

    @property
    def name(self) -> str:
        """The host's name in the profile."""

    def open(self, argv: Sequence[str]) -> Channel:
        """Start a program there; raises a `HostError` that says why it cannot."""

    def explain(self, ending: Ending | None) -> HostError | None:
        """Why a program that was opened never got to run, where this way knows more than its
        ending says; `ending` is None when it neither spoke nor ended in time."""

    def close(self) -> None:
        """Give up every connection."""
