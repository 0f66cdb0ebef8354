"""From the source through the controller to all receivers at once."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from deployctl import cancel
from deployctl.agent.wire import frames
from deployctl.errors import ConnectionLost, HostError
from deployctl.hosts.shipping.parties import Goods, Party, Receiver, Tell, ranges
from deployctl.hosts.shipping.streams import Program

AHEAD = 4
"""Pieces that wait for a receiver that is slower than the source."""
STALL = 60.0
"""Seconds without a sign of life until a receiver or the source counts as lost."""
TICK = 0.5


def at_once(
    source: Party, receivers: Sequence[Receiver], goods: Goods, pieces: Sequence[int], tell: Tell
) -> HostError | None:
    """Send these pieces to all who lack them; each failure is with its receiver, that of the source
    is given back. What was stored is known to each host."""
    feeds = [_Feed(receiver, tell, goods) for receiver in receivers]
    asked = {
        "from": "disk",
        "folder": goods.place,
        "note": goods.note,
        "pieces": ranges(pieces),
        "next": "stdout",
    }
    try:
        sender = Program(source, asked)
    except HostError as error:
        return error
    watch = _Watch(sender)
    try:
        with cancel.waking(lambda: _end([*feeds], sender)):
            for feed in feeds:
                feed.start()
            failure = _pump(sender, feeds, watch)
            for feed in feeds:
                feed.end()
        cancel.check()
    finally:
        watch.over.set()
        _end(feeds, sender)
    return failure


def _pump(sender: Program, feeds: Sequence[_Feed], watch: _Watch) -> HostError | None:
    try:
        for number, data in frames.read(sender.reader()):
            watch.moved()
            for feed in feeds:
                if number in feed.receiver.missing:
                    feed.put((number, data))
            watch.moved()
            if not any(feed.alive for feed in feeds):
                return None
    except frames.BrokenStream as error:
        return sender.failure(f"the source stopped sending: {error}")
    return None


def _end(feeds: Sequence[_Feed], sender: Program) -> None:
    with suppress(OSError, EOFError):
        sender.close()
    for feed in feeds:
        feed.close()


class _Watch(threading.Thread):
    """Ends a source from which nothing comes although somebody waits."""

    def __init__(self, sender: Program) -> None:
        super().__init__(name="watch source", daemon=True)
        self.over = threading.Event()
        self._sender = sender
        self._moved = time.monotonic()
        self.start()

    def moved(self) -> None:
        self._moved = time.monotonic()

    def run(self) -> None:
        while not self.over.wait(TICK):
            # While the receivers take nothing, each of them is judged by itself first.
            if time.monotonic() - self._moved > 2 * STALL:
                self._sender.channel.close()
                return


class _Feed:
    """One receiver: its pieces go out in one thread, and what it reports is heard in another."""

    def __init__(self, receiver: Receiver, tell: Tell, goods: Goods) -> None:
        self.receiver = receiver
        self.alive = True
        self._tell = tell
        self._goods = goods
        self._queue: queue.Queue[frames.Frame | None] = queue.Queue(AHEAD)
        self._program: Program | None = None
        self._moved = time.monotonic()
        self._threads = [
            threading.Thread(target=self._send, name=f"send {receiver.name}", daemon=True)
        ]

    def start(self) -> None:
        self._threads[0].start()

    def put(self, frame: frames.Frame | None) -> None:
        """Hand over a piece; waits while the receiver is behind, and gives up a silent one."""
        began = time.monotonic()
        while self.alive:
            try:
                self._queue.put(frame, timeout=TICK)
                return
            except queue.Full:
                if time.monotonic() - max(self._moved, began) > STALL:
                    why = f"it took nothing for {STALL:g} s"
                    self._lose(ConnectionLost(self.receiver.name, "it stopped receiving", why))

    def end(self) -> None:
        """Nothing more comes: wait until everything is stored."""
        self.put(None)
        for thread in self._threads:  # the second begins in the first
            while thread.is_alive() and self.alive:
                thread.join(TICK)
                if self.alive and time.monotonic() - self._moved > STALL:
                    why = f"it reported nothing for {STALL:g} s"
                    self._lose(ConnectionLost(self.receiver.name, "it stopped receiving", why))

    def close(self) -> None:
        self.alive = False
        if self._program is not None:
            with suppress(OSError, EOFError):
                self._program.close()

    def _lose(self, error: HostError) -> None:
        if self.receiver.failure is None:
            self.receiver.failure = error
        self.alive = False
        if self._program is not None:
            self._program.channel.close()

    def _send(self) -> None:
        asked = {"from": "stdin", "folder": self.receiver.folder, "next": None}
        try:
            program = self._program = Program(self.receiver.party, asked)
            hearing = threading.Thread(target=self._hear, args=(program,), daemon=True)
            self._threads.append(hearing)
            hearing.start()
            self._put_out(program)
        except HostError as error:
            self._lose(error)

    def _put_out(self, program: Program) -> None:
        try:
            program.channel.send(frames.MAGIC)
            while (frame := self._queue.get()) is not None:
                program.channel.send(frames.head(frame[0], len(frame[1])))
                program.channel.send(frame[1])
                self._moved = time.monotonic()
            program.channel.send(frames.end())
        except OSError:
            pass  # its own words tell why, where they are heard

    def _hear(self, program: Program) -> None:
        """What it reports, line by line, until it ends."""
        for line in program.reader():
            self._moved = time.monotonic()
            with suppress(ValueError):
                told = json.loads(line)
                if isinstance(told, dict):
                    self._take(told)
        if program.channel.ending().status != 0 and self.alive:
            self._lose(program.failure("the receiving program ended"))

    def _take(self, told: dict[str, int]) -> None:
        number = told.get("stored", -1)
        if number in self.receiver.missing:
            self.receiver.missing.discard(number)
            self._tell(self.receiver, self._goods.size([number]))
