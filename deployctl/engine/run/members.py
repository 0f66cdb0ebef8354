"""Where the workers of a group meet: they go on together, or learn which of them failed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl import cancel
from deployctl.engine.connections.pool import Slots
from deployctl.steps.member import NoPeers, PeerFailed, Peers

TRY, BACK = "try", "back"
"""The two stretches of a run: the new release, and the rollback."""


class Members:
    """The hosts of one group during a run, in the order of their ranks."""

    def __init__(self, hosts: Sequence[str], slots: Slots) -> None:
        self.hosts = tuple(hosts)
        self._slots = slots
        self._said: dict[tuple[str, str], dict[str, Any]] = {}
        self._failed: dict[str, PeerFailed] = {}
        """The first failure of each stretch."""
        self._left: dict[str, str] = {}
        """Who takes no part any more, and why."""
        self._changed = threading.Condition()

    @property
    def alone(self) -> bool:
        return len(self.hosts) < 2

    def at(self, host: str, stretch: str = TRY) -> Peers:
        """What the steps of one rank see of the others in a stretch."""
        return NoPeers() if self.alone else At(self, host, stretch)

    def tell(self, host: str, stretch: str, key: str, value: Any) -> None:
        with self._changed:
            self._said.setdefault((stretch, key), {})[host] = value
            self._changed.notify_all()

    def told(self, stretch: str, key: str) -> Mapping[str, Any]:
        """By host, in the order of ranks."""
        with self._changed:
            said = self._said.get((stretch, key), {})
            return {host: said[host] for host in self.hosts if host in said}

    def meet(self, host: str, stretch: str, key: str, value: Any) -> Mapping[str, Any]:
        """Wait for all; raises `PeerFailed` where one has failed in this stretch or left."""
        self.tell(host, stretch, key, value)

        def over() -> bool:
            told = len(self._said[stretch, key]) == len(self.hosts)
            return told or self._why(host, stretch) is not None

        with self._slots.given(), self._changed:
            cancel.wait_for(self._changed, over)
        told = self.told(stretch, key)
        if len(told) < len(self.hosts):
            self.check(host, stretch)
        return told

    def every(self, host: str, key: str, value: Any) -> Mapping[str, Any]:
        """What all of them say, of those that still take part; waits for each that does."""
        if self.alone:
            return {host: value}
        self.tell(host, "", key, value)

        def over() -> bool:
            return {*self._said["", key], *self._left} >= {*self.hosts}

        with self._slots.given(), self._changed:
            cancel.wait_for(self._changed, over)
        return self.told("", key)

    def any(self, host: str, key: str, value: bool) -> bool:
        """Whether any of them says so; raises `PeerFailed` where one cannot."""
        if self.alone:
            return value
        return any(self.meet(host, TRY, key, value).values())

    def check(self, host: str, stretch: str) -> None:
        """Raise the failure of another rank in this stretch."""
        with self._changed:
            why = self._why(host, stretch)
        if why is not None:
            raise PeerFailed(why.host, why.why)

    def failed(self, host: str, stretch: str, why: str) -> None:
        """This rank failed in this stretch."""
        with self._changed:
            self._failed.setdefault(stretch, PeerFailed(host, why))
            self._changed.notify_all()

    def left(self, host: str, why: str) -> None:
        """This rank takes no part any more."""
        with self._changed:
            self._left.setdefault(host, why)
            self._changed.notify_all()

    def _why(self, host: str, stretch: str) -> PeerFailed | None:
        first = self._failed.get(stretch)
        if first is not None and first.host != host:
            return first
        gone = (PeerFailed(one, why) for one, why in self._left.items() if one != host)
        return next(gone, None)


class At:
    """One rank's view of the others in a stretch."""

    def __init__(self, members: Members, host: str, stretch: str) -> None:
        self._members, self._host, self._stretch = members, host, stretch

    def tell(self, key: str, value: Any) -> None:
        self._members.tell(self._host, self._stretch, key, value)

    def told(self, key: str) -> Mapping[str, Any]:
        return self._members.told(self._stretch, key)

    def meet(self, key: str, value: Any = None) -> Mapping[str, Any]:
        return self._members.meet(self._host, self._stretch, key, value)

    def check(self) -> None:
        self._members.check(self._host, self._stretch)
