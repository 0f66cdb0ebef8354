"""An operation of the agent that is fed and heard while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from deployctl.errors import HostError
from deployctl.hosts.link import Link, Request

Answer = TypeVar("Answer")
AHEAD = 1 << 20
"""Bytes sent ahead of what the host has acknowledged: more would only queue, before our pings."""


class Stream(Generic[Answer]):
    """A running operation: `feed` it, take its events with `next`; `cancel` ends it."""

    def __init__(
        self, link: Link, request: Request, read: Callable[[list[Any]], list[Any]]
    ) -> None:
        self._link = link
        self._request = request
        self._read = read
        self.value: Answer | None = None
        """What the operation gave, once it has ended."""
        self.failure: HostError | None = None
        """Why it gave nothing, once it has ended."""
        self._ended = False

    def feed(self, data: Any) -> None:
        """Hand the operation its next input."""
        self._link.send({"feed": self._request.number, "data": data})

    def cancel(self) -> None:
        """Ask the operation to end."""
        self._link.send({"cancel": self._request.number})

    def next(self) -> dict[str, Any] | None:
        """The next event, blocking; None when the operation has ended or the host is gone."""
        if self._ended:
            return None
        try:
            message = self._link.receive(self._request)
            if "event" in message:
                event: dict[str, Any] = message["event"]
                return event
            (answer,) = self._read(message["results"])
        except HostError as error:
            answer = error
        self._ended = True
        self._link.forget(self._request)
        if isinstance(answer, HostError):
            self.failure = answer
        else:
            self.value = answer
        return None

    def result(self) -> Answer:
        """Wait for the end, leaving events unread; raises what the operation failed with."""
        while self.next() is not None:
            pass
        if self.failure is not None:
            raise self.failure
        value: Any = self.value
        return value  # type: ignore[no-any-return]
