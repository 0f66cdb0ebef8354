"""Brings a folder of one host to others: what is missing, by which way, until it is whole.

Which way is measured where nothing is asked for: the first pieces go at once from the controller,
and where the rest would take long, the next ones go from host to host; the faster way stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployctl import cancel
from deployctl.errors import HostError
from deployctl.hosts.operations import shipping
from deployctl.hosts.shipping.at_once import at_once
from deployctl.hosts.shipping.parties import (
    CONTROLLER,
    RELAY,
    Goods,
    Party,
    Receiver,
    Tell,
    Way,
    union,
)
from deployctl.hosts.shipping.relay import attach, relay

PROBE = 8
"""Pieces by which a way is measured."""
WORTH = 10.0
"""Seconds that the rest must take for another way to be tried."""
DAMAGED = 2
"""How often a piece may arrive damaged until its source counts as damaged."""
FRUITLESS = 2
"""Rounds without any piece until it is given up."""


@dataclass
class Shipment:
    """One folder, one source, some receivers. `way` is controller, relay or auto; `port` is where
    receivers of a relay listen (any free one where None)."""

    source: Party
    folder: str
    receivers: Sequence[Receiver]
    way: Way = "auto"
    port: int | None = None
    note: Callable[[str], object] = str
    tell: Tell = lambda receiver, count: None
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was measured of each way: bytes, seconds."""
    total: int = 0

    def run(self) -> None:
        """Until each receiver has the whole folder under its name, or its `failure` says why not.
        Raises what the source fails with."""
        described = self.source.session.call(shipping.describe, folder=self.folder)
        goods = Goods(
            described["place"], described["note"], described["manifest"], described["bytes"]
        )
        self.total = goods.total
        attach(self.source, self.receivers, goods, self.tell, self._attached)
        self._each(lambda one: self._prepare(one, goods))
        way: Way | None = None if self.way == "auto" else self.way
        fruitless = 0
        while (waiting := [one for one in self.receivers if one.waits]) and fruitless < FRUITLESS:
            before = sum(len(one.missing) for one in waiting)
            failure, way = self._round(waiting, goods, way)
            self._each(self._look, waiting)
            self._give_up_damaged(waiting, goods)
            came = before - sum(len(one.missing) for one in waiting)
            fruitless = 0 if came else fruitless + 1
            if failure is not None:
                self.note(str(failure.what))
        for one in self.receivers:
            if one.waits:
                one.failure = failure or HostError(one.name, "nothing came")
        self._each(self._finish)

    def _attached(self, hosts: Sequence[str]) -> None:
        self.note(f"attached to what an earlier run began on {', '.join(hosts)}")

    def _round(
        self, waiting: Sequence[Receiver], goods: Goods, way: Way | None
    ) -> tuple[HostError | None, Way | None]:
        pieces = sorted(union(waiting))
        if way is None and len(pieces) > 2 * PROBE and self._reach_each_other(waiting):
            return self._measured(waiting, goods, pieces)
        way = way or CONTROLLER
        failure = self._by(way, waiting, goods, pieces)
        if failure is not None and self.way == "auto":
            way = CONTROLLER
        return failure, way

    def _measured(
        self, waiting: Sequence[Receiver], goods: Goods, pieces: Sequence[int]
    ) -> tuple[HostError | None, Way | None]:
        """A part by the controller, and one by relay where that may be worth it; the better way."""
        failure = self._by(CONTROLLER, waiting, goods, pieces[:PROBE])
        rate = self._rate(CONTROLLER)
        if failure is not None or not rate or goods.size(pieces[PROBE:]) / rate < WORTH:
            return failure, CONTROLLER
        failure = self._by(RELAY, waiting, goods, pieces[PROBE : 2 * PROBE])
        if failure is not None:
            self.note(f"not from host to host: {failure.what}: {failure.why}")
            return None, CONTROLLER
        better = RELAY if self._rate(RELAY) > rate else CONTROLLER
        told = " and ".join(f"{self._rate(w) / 1e6:.0f} MB/s by {w}" for w in (CONTROLLER, RELAY))
        self.note(f"the rest goes by {better}: {told}, to each")
        return None, better

    def _by(
        self, way: Way, waiting: Sequence[Receiver], goods: Goods, pieces: Sequence[int]
    ) -> HostError | None:
        for one in waiting:
            if way not in one.ways:
                one.ways.append(way)
        came: list[tuple[float, int]] = []

        def tell(receiver: Receiver, count: int) -> None:
            came.append((time.monotonic(), count))
            self.tell(receiver, count)

        began = time.monotonic()
        if way == RELAY:
            failure = relay(self.source, waiting, goods, pieces, tell, self.port)
        else:
            failure = at_once(self.source, waiting, goods, pieces, tell)
        count = sum(count for _, count in came) // max(1, len(waiting))
        # From the first piece on: to connect takes its time whichever way.
        first, ended = (came[0][0], came[-1][0]) if came else (began, began)
        known = self.figures.setdefault(way, {"bytes": 0, "seconds": 0.0, "moving": 0.0})
        known["bytes"] += count
        known["seconds"] += time.monotonic() - began
        known["moving"] += ended - first
        return failure

    def _rate(self, way: Way) -> float:
        """Bytes a second to each receiver."""
        known = self.figures.get(way) or {"bytes": 0, "moving": 0.0}
        return float(known["bytes"] / max(0.001, known["moving"]))

    def _reach_each_other(self, receivers: Sequence[Receiver]) -> bool:
        return all(one.party.address for one in receivers)

    # -- the receivers -----------------------------------------------------------------------

    def _each(
        self, work: Callable[[Receiver], None], receivers: Sequence[Receiver] | None = None
    ) -> None:
        """Do this for all that still take part, at once; a failure is its receiver's."""

        def one(receiver: Receiver) -> None:
            try:
                work(receiver)
            except HostError as error:
                receiver.failure = error

        taking = [r for r in receivers or self.receivers if r.failure is None]
        threads = [threading.Thread(target=one, args=(r,), daemon=True) for r in taking]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
                cancel.check()

    def _prepare(self, receiver: Receiver, goods: Goods) -> None:
        found = receiver.party.session.call(
            shipping.prepare, folder=receiver.folder, manifest=dict(goods.manifest)
        )
        receiver.missing = set(found["missing"])
        receiver.folder = found["place"]
        receiver.kept = len(goods.manifest["digests"]) - len(receiver.missing)

    def _look(self, receiver: Receiver) -> None:
        found = receiver.party.session.call(shipping.received, folder=receiver.folder)
        receiver.missing = set(found["missing"])
        receiver.damaged = {pair[0]: pair[1] for pair in found["damaged"]}

    def _finish(self, receiver: Receiver) -> None:
        receiver.party.session.call(shipping.finish, folder=receiver.folder)

    def _give_up_damaged(self, receivers: Sequence[Receiver], goods: Goods) -> None:
        """A piece that arrives damaged again and again is damaged where it comes from."""
        bad = {n for one in receivers for n, times in one.damaged.items() if times >= DAMAGED}
        for one in receivers:
            lacks = sorted(bad & one.missing)
            if lacks and one.failure is None:
                found = "; ".join(piece_name(goods.manifest, number) for number in lacks[:5])
                one.failure = HostError(
                    one.name,
                    f"what {self.source.name} sends is damaged there",
                    f"other bytes than a moment ago: {found}",
                    f"look at the disk of {self.source.name} and compare: deployctl verify --deep, "
                    "deployctl fetch --deep; then retry",
                )
        if bad:
            # Its checksums are computed again from what lies there, to be judged by those of the
            # origin.
            self.source.session.call(shipping.forget, folder=self.folder)


def piece_name(manifest: Mapping[str, Any], number: int) -> str:
    """A piece as people find it: its number, and its files and bytes."""
    piece, at = int(manifest["piece"]), 0
    begin, end = number * piece, (number + 1) * piece
    parts = []
    for file in manifest["files"]:
        first, last = max(begin, at), min(end, at + file["size"])
        if first < last:
            parts.append(f"{file['name']} bytes {first - at}-{last - at - 1}")
        at += file["size"]
    return f"piece {number} ({', '.join(parts)})"
