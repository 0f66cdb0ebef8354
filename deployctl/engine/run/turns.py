"""Whose turn it is: to take its host's lock, and to switch, wave by wave as the strategy says."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from deployctl import cancel
from deployctl.config.host import HostSettings
from deployctl.config.router import RollSettings
from deployctl.engine.connections.pool import Slots
from deployctl.engine.run.placement import Group
from deployctl.engine.strategies.interface import GroupPlan, Strategy, Wave
from deployctl.engine.strategies.rolling import share


class HeldBack(Exception):
    """A host's turn does not come: another one failed."""


def _one_before(hosts: Iterable[HostSettings]) -> dict[str, str]:
    """Of each replica the one before it on the same machine, where there is one."""
    last: dict[str, str] = {}
    found: dict[str, str] = {}
    for host in hosts:
        if host.machine in last:
            found[host.name] = last[host.machine]
        last[host.machine] = host.name
    return found


class Turns:
    """Lets groups switch in the waves of a strategy. With `fail_fast` no host begins, and none
    switches, once another has failed."""

    def __init__(
        self,
        strategy: Strategy,
        groups: Sequence[Group],
        slots: Slots,
        fail_fast: bool = False,
        roll: RollSettings | None = None,
    ) -> None:
        self.slots = slots
        self._strategy = strategy
        self._fail_fast = fail_fast
        self._joined = any(len(group.placements) > 1 for group in groups)
        self._wait = roll.wait if roll else 0.0
        self._tolerated = share(roll.tolerate, len(groups)) if roll and strategy.together else 0
        self.on_failure = roll.on_failure if roll else "stop"
        self._group = {p.host.name: group.name for group in groups for p in group.placements}
        self._before = _one_before(p.host for group in groups for p in group.placements)
        self._plans: dict[str, GroupPlan] = {}
        self._locked: set[str] = set()
        self._waiting: set[str] = set()
        self._passed: set[str] = set()
        self._ended: set[str] = set()
        self._failed: list[str] = []
        self._broken: list[str] = []
        """Those that failed before they could switch, so that the others may do without them."""
        self._switched: set[str] = set()
        self._declined = ""
        self._changed = threading.Condition()
        self._waves: tuple[Wave, ...] | None = None

    def begin(self) -> None:
        """Raise `HeldBack` where no further host is to begin."""
        with self._changed:
            if self._fail_fast:
                self._check_failed(self._broken)

    def bound(self, moving: bool) -> bool:
        """Whether hosts of this run wait for each other while they hold their locks: for a wave, as
        ranks of a group, or with `moving` for what a name stands for."""
        waits = self._strategy.together or self._joined or moving
        return len(self._group) > 1 and waits

    def lock(self, host: str) -> None:
        """Wait until every host whose name comes before this one's has its lock, or has ended.

        Two runs that each hold a lock which the other waits for would wait for ever. Where both
        take them in one order, neither can.
        """
        before = [name for name in self._group if name < host]
        with self.slots.given(), self._changed:
            cancel.wait_for(
                self._changed, lambda: all(one in self._locked | self._ended for one in before)
            )

    def locked(self, host: str) -> None:
        """This host's lock is taken."""
        with self._changed:
            self._locked.add(host)
            self._changed.notify_all()

    def follows(self, host: str) -> bool:
        """Whether it shares its machine with a replica that comes before it in this run."""
        return self._strategy.together and host in self._before

    def after_the_one_before(self, host: str) -> None:
        """Wait until the replica before it on the same machine has staged, or has nothing to: what
        that has made is there for this one."""
        before = self._before[host]
        with self.slots.given(), self._changed:
            cancel.wait_for(
                self._changed, lambda: before in self._waiting | self._passed | self._ended
            )
            if before in self._failed:
                raise HeldBack(f"{before} failed")

    def planned(self, host: str, switches: bool, serves: bool) -> None:
        """What a host has to do is known."""
        with self._changed:
            before = self._plans.get(self._group[host])
            self._plans[self._group[host]] = GroupPlan(
                self._group[host],
                switches or bool(before and before.switches),
                serves and (before is None or before.serves),
            )

    def decline(self, why: str) -> None:
        """A host does not try the wanted release: none that rolls with it does."""
        with self._changed:
            self._declined = self._declined or why

    def switch(self, host: str) -> None:
        """Wait until this host, which has staged, may switch; raises `HeldBack` where not."""
        if not self._strategy.together:
            self.begin()
            return
        with self.slots.given(), self._changed:
            self._waiting.add(host)
            self._changed.notify_all()
            cancel.wait_for(self._changed, lambda: self._comes(host))
            self._may_switch(host)
            later = self._wave(host) > 0
        if later and self._wait:
            cancel.sleep(self._wait)
            with self._changed:
                self._may_switch(host)
        with self._changed:
            self._switched.add(host)

    def passed(self, host: str) -> str | None:
        """This host's part is done and has passed: wait for those of all others, with the lock
        that it holds. The host that failed first; None where none did."""
        if not self._strategy.together:
            return None
        with self.slots.given(), self._changed:
            self._passed.add(host)
            self._changed.notify_all()
            over = lambda: {*self._group} <= self._ended | self._passed  # noqa: E731
            cancel.wait_for(self._changed, over)
            return next(iter(self._failed), None)

    def back(self, host: str) -> None:
        """Wait until this host, which has passed, may go back to what it served before: after
        those that switched later."""
        with self.slots.given(), self._changed:
            waves = self._waves or ()
            later = {group for wave in waves[self._wave(host) + 1 :] for group in wave}
            hosts = {one for one, group in self._group.items() if group in later}
            cancel.wait_for(self._changed, lambda: hosts <= self._ended)

    def number(self, host: str) -> int | None:
        """The wave of a host, from 1 on; None where it is in none, or waves were never needed."""
        own = self._group[host]
        return next((i + 1 for i, wave in enumerate(self._waves or ()) if own in wave), None)

    def ended(self, host: str, failed: bool, broken: bool = True) -> None:
        """This host is done, and takes no part any more. A failure before it could switch says
        nothing about the release where the host is `broken`."""
        with self._changed:
            self._ended.add(host)
            if failed and broken and host not in self._switched:
                self._broken.append(host)
            elif failed:
                self._failed.append(host)
            if len(self._broken) > self._tolerated:
                self._failed += [one for one in self._broken if one not in self._failed]
            self._changed.notify_all()

    def _may_switch(self, host: str) -> None:
        self._check_failed(self._broken if self._fail_fast else ())
        if self._declined:
            raise HeldBack(self._declined)
        gone = self._broken_beside(host)
        if gone:
            raise HeldBack(f"{', '.join(gone)} failed")

    def _broken_beside(self, host: str) -> list[str]:
        """Other ranks of a host's group that failed before they could switch."""
        own = self._group[host]
        return [one for one in self._broken if one != host and self._group[one] == own]

    def _check_failed(self, more: Sequence[str] = ()) -> None:
        failed = [*self._failed, *more]
        if not failed:
            return
        named = self._broken if failed[0] in self._broken else failed[:1]
        raise HeldBack(f"{', '.join(named)} failed")

    def _comes(self, host: str) -> bool:
        """Whether its wave has come, or never will."""
        if self._failed or (self._fail_fast and self._broken):
            return True
        if self._broken_beside(host):
            return True
        if not all(one in self._waiting | self._ended | self._passed for one in self._group):
            return False
        if self._waves is None:
            order = dict.fromkeys(self._group.values())
            gone = {self._group[one] for one in self._broken}
            known = [self._plans[one] for one in order if one in self._plans and one not in gone]
            self._waves = self._strategy.waves(known)
        before = self._waves[: self._wave(host)]
        done = {group for group in self._plans if self._is_done(group)}
        return all(group in done for wave in before for group in wave)

    def _wave(self, host: str) -> int:
        """The number of its wave, from 0 on."""
        own = self._group[host]
        return next(i for i, wave in enumerate(self._waves or ()) if own in wave)

    def _is_done(self, group: str) -> bool:
        over = self._ended | self._passed
        return all(host in over for host, own in self._group.items() if own == group)
