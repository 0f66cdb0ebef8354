"""The lines between a session and its agent: read, written and watched in threads of their own."""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.messages import LONGEST_LINE
from deployctl.errors import ConnectionLost
from deployctl.hosts.interface import Channel, Ending
from deployctl.hosts.messages import Message, Unreadable, read, shown

MOST_QUEUED = 64 << 20
"""Bytes that wait to be processed, in either direction; with more the connection is closed."""
NOISE_KEPT = 2000
JOIN_LIMIT = 5.0
LOST: Message = {}
"""What a request finds in its box when the connection is gone."""
WOKEN: Message = {}
"""What it finds there when whoever waits for it is interrupted."""


@dataclass(frozen=True)
class Limits:
    """Time limits of a session, in seconds.

    start: until the agent's first word · ping: between two signs of life that are asked for ·
    dead: without any sign of life, the host counts as gone · silence: how long the agent lives
    on without hearing from us (its locks end with it) · answer: between two words about a
    request, beyond what it may wait for by its own arguments · whole: a request altogether, unless
    it tells events.
    """

    start: float = 30.0
    ping: float = 4.0
    dead: float = 16.0
    silence: float = 45.0
    answer: float = 120.0
    whole: float = 6 * 3600.0


@dataclass
class Request:
    """A request that is not answered yet: what arrives about it, and until when some must."""

    number: int
    what: str
    answers: int
    eventful: bool
    quiet: float
    ends: float
    heard: float = field(default_factory=time.monotonic)
    box: queue.SimpleQueue[tuple[Message, int]] = field(default_factory=queue.SimpleQueue)

    @property
    def due(self) -> float:
        """When it counts as not answered, unless something comes."""
        return min(self.heard + self.quiet, self.ends)


class Link:
    """One channel's lines. Anything that is not a message, comes late or piles up ends it."""

    def __init__(self, name: str, channel: Channel, limits: Limits) -> None:
        self.name = name
        self.noise = b""
        """The end of what the host printed before the agent's first message."""
        self.starting: queue.Queue[Message | Ending] = queue.Queue()
        """`Need`, then `Started` or `Refused`; or how the program ended."""
        self._limits = limits
        self._channel = channel
        self._numbers = itertools.count(1)
        self._last = 0
        self._requests: dict[int, Request] = {}
        self._lock = threading.Lock()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = {"in": 0, "out": 0}
        self._expected = {"need", "ready", "refused"}
        self._lost: tuple[str, str] | None = None
        self._heard = time.monotonic()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"{work.__name__} {name}", daemon=True)
            for work in (self._read, self._write, self._watch)
        ]
        for thread in self._threads[:2]:
            thread.start()

    def started(self) -> None:
        """The agent has sent its first message: watch over it from now on."""
        self._threads[2].start()

    def open(self, ops: Sequence[Mapping[str, Any]], eventful: bool, quiet: float) -> Request:
        """Send a request; raises `ConnectionLost` where the connection is gone already."""
        what = ", ".join(dict.fromkeys(str(op["op"]) for op in ops))
        whole = float("inf") if eventful else self._limits.whole
        with self._lock:
            if self._lost is not None:
                raise self.gone()
            self._last = number = next(self._numbers)
            ends = time.monotonic() + whole
            request = Request(number, what, len(ops), eventful, quiet, ends)
            self._requests[number] = request
        self.send({"id": number, "calls": ops})
        return request

    def receive(self, request: Request) -> Message:
        """The next message about a request, blocking; raises `ConnectionLost` at the end, and
        `Cancelled` for an interrupt of this thread."""
        with cancel.waking(lambda: request.box.put((WOKEN, 0))):
            while (found := request.box.get())[0] is WOKEN:
                cancel.check()
        message, size = found
        self._count("in", -size)
        if message is LOST:
            raise self.gone()
        return message

    def forget(self, request: Request) -> None:
        """What still comes about this request is dropped."""
        self._requests.pop(request.number, None)
        while not request.box.empty():
            self._count("in", -request.box.get()[1])

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message. Never blocks: a link that takes no more bytes must not stop the watch
        over it."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if self._count("out", len(data)) > MOST_QUEUED and self._lost is None:
            self.lose("the host takes no more of what it is sent", f"{MOST_QUEUED} bytes wait")
        else:
            self._outgoing.put(data)

    def lose(self, what: str, why: str) -> ConnectionLost:
        """Give the connection up, for all requests; the first reason stands."""
        with self._lock:
            first = self._lost is None
            if self._lost is None:
                self._lost = (what, why)
            waiting = list(self._requests.values())
        for request in waiting:
            request.box.put((LOST, 0))
        if first and not self._closed.is_set():
            self._channel.close()
        return self.gone()

    def gone(self) -> ConnectionLost:
        """Why there is no connection any more."""
        what, why = self._lost or ("the connection was closed", "")
        todo = "run the same command again: it attaches to what is running"
        return ConnectionLost(self.name, what, why, todo)

    def close(self) -> None:
        """End the agent by the end of its input."""
        self._closed.set()
        self._outgoing.put(None)
        self._channel.close()

    def join(self) -> None:
        """Wait for the threads, once the way itself is closed as well."""
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(timeout=JOIN_LIMIT)
        self.lose("the connection was closed", "")

    # -- the threads -------------------------------------------------------------------------

    def _write(self) -> None:
        while (data := self._outgoing.get()) is not None:
            try:
                self._channel.send(data)
            except (OSError, EOFError):
                return  # the reader learns why, with the exit status and the last words
            self._count("out", -len(data))

    def _read(self) -> None:
        line = bytearray()
        while self._lost is None and (data := self._receive()):
            self._heard = time.monotonic()
            head, *others = data.split(b"\n")
            line += head
            for other in others:
                self._hear(bytes(line))
                line = bytearray(other)
            if len(line) > LONGEST_LINE:
                self.lose("what the host sends is not the agent's", shown(line))
        self.noise = (self.noise + line)[-NOISE_KEPT:]
        ending = self._channel.ending()
        self.starting.put(ending)
        self.lose("the connection to the agent ended", ending.stderr.strip())

    def _receive(self) -> bytes:
        try:
            return self._channel.receive()
        except (OSError, EOFError):
            return b""

    def _hear(self, line: bytes) -> None:
        if not line.strip() or self._lost is not None:
            return
        try:
            kind, message = read(line)
            self._take(kind, message, len(line))
        except Unreadable as error:
            if self._expected:
                # A login shell's greeting; kept in case that it says why there is no agent.
                self.noise = (self.noise + line + b"\n")[-NOISE_KEPT:]
                return
            self.lose("the agent sends what cannot be understood", f"{error}: {shown(line)}")

    def _take(self, kind: str, message: Message, size: int) -> None:
        if self._expected or kind in ("need", "ready", "refused"):
            if kind not in self._expected:
                raise Unreadable(f"{kind} is out of turn")
            self._expected = {"ready", "refused"} if kind == "need" else set()
            self.starting.put(message)
        elif kind in ("event", "results"):
            self._deliver(kind, message, size)

    def _deliver(self, kind: str, message: Message, size: int) -> None:
        request = self._requests.get(message["id"])
        if request is None:
            if not 0 < message["id"] <= self._last:
                raise Unreadable("it answers no request")
            return  # given up meanwhile
        request.heard = time.monotonic()
        if kind == "results" and len(message["results"]) != request.answers:
            raise Unreadable(f"{len(message['results'])} results for {request.what}")
        if kind == "event" and not (request.eventful and message["event"]):
            return  # it is still at work
        request.box.put((message, size))
        if self._count("in", size) > MOST_QUEUED:
            self.lose("the host sends more than can be processed", f"{MOST_QUEUED} bytes wait")

    def _watch(self) -> None:
        heard = self._heard
        for count in itertools.count(1):
            heard, now = max(heard, self._heard), time.monotonic()
            requests = list(self._requests.values())
            late = next((one for one in requests if one.due <= now), None)
            if heard + self._limits.dead <= now:
                self.lose("the host stopped answering", f"silent for {self._limits.dead:g} s")
            elif late is not None:
                why = f"it answers pings, and nothing to {late.what} for {late.quiet:g} s"
                self.lose("the agent hangs", why)
            if self._lost is not None:
                return
            dues = [heard + self._limits.dead, *(one.due for one in requests)]
            due = min(now + self._limits.ping, *dues)
            if self._closed.wait(due - time.monotonic()):
                return
            # While this machine stood still, the host was not asked: that does not count as its
            # silence.
            overslept = time.monotonic() - due
            heard += overslept
            for one in requests:
                one.heard += overslept
            self.send({"ping": count})

    def _count(self, direction: str, size: int) -> int:
        with self._lock:
            self._queued[direction] += size
            return self._queued[direction]
