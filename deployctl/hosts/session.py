"""The agent's client side: one conversation with one host, however it is reached."""

from __future__ import annotations

import base64
import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from deployctl import cancel
from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts import refusal
from deployctl.hosts.bundle import BOOTSTRAP, bundle
from deployctl.hosts.interface import Channel, Ending, Transport
from deployctl.hosts.stream import Stream

Event = Callable[[dict[str, Any]], None]

LONGEST_LINE = 64 << 20
"""Bytes without a line's end after which what comes cannot be the agent's."""
NOISE_KEPT = 2000
JOIN_LIMIT = 5.0


@dataclass(frozen=True)
class Call:
    """One operation of the agent and its arguments, which travel as JSON."""

    op: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """Time limits of a session, in seconds.

    start: until the agent's first word · ping: between two signs of life that are asked for ·
    dead: without any sign of life, the host counts as gone · silence: how long the agent lives
    on without hearing from us (its locks end with it).
    """

    start: float = 30.0
    ping: float = 4.0
    dead: float = 16.0
    silence: float = 45.0


class Session:
    """A started agent. Requests may come from several threads; each waits for its own answer.

    `round_trips` counts requests, which is what a redeploy without changes is measured by.
    """

    def __init__(
        self,
        transport: Transport,
        root: str = "",
        python: str = "python3",
        limits: Limits = Limits(),
    ) -> None:
        self.name = transport.name
        self.round_trips = 0
        self._limits = limits
        self._transport = transport
        self._python = python
        self._numbers = itertools.count(1)
        self._pending: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ready: queue.Queue[dict[str, Any] | Ending] = queue.Queue()
        self._noise = b""
        self._lost: tuple[str, str] | None = None
        self._heard = time.monotonic()
        self._closed = threading.Event()
        try:
            self._channel: Channel = transport.open([python, "-I", "-c", BOOTSTRAP])
        except BaseException:
            transport.close()
            raise
        self._threads = [
            threading.Thread(target=work, name=f"{work.__name__} {self.name}", daemon=True)
            for work in (self._read, self._write, self._watch)
        ]
        for thread in self._threads[:2]:
            thread.start()
        self._send({"hash": bundle().sha256, "root": root, "silence": limits.silence})
        try:
            self.agent: Mapping[str, Any] = self._start()
        except BaseException:
            self.close()
            raise
        self._threads[2].start()

    @property
    def root(self) -> str:
        """The directory on the host that holds everything of deployctl's."""
        return str(self.agent["root"])

    def ask(self, calls: Sequence[Call], on_event: Event | None = None) -> list[Any]:
        """Several operations in one round trip; each answer is a value or a `RemoteError`."""
        return self._answers(calls, self._request(calls, on_event))

    def call(self, op: str, on_event: Event | None = None, /, **args: Any) -> Any:
        """One operation; raises `RemoteError` where the agent could not answer."""
        (answer,) = self.ask([Call(op, args)], on_event)
        if isinstance(answer, RemoteError):
            raise answer
        return answer

    def stream(self, op: str, **args: Any) -> Stream:
        """Start an operation that is fed and heard while it runs (a relayed connection)."""
        return Stream(self, Call(op, args))

    def close(self) -> None:
        """End the conversation; the agent ends and its locks fall."""
        self._closed.set()
        self._outgoing.put(None)
        self._channel.close()
        self._transport.close()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(timeout=JOIN_LIMIT)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------

    def _start(self) -> Mapping[str, Any]:
        deadline = time.monotonic() + self._limits.start
        while True:
            try:
                word = self._ready.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._transport.explain(None) or ConnectionLost(
                    self.name,
                    "the agent did not start",
                    f"no word from it within {self._limits.start:g} s",
                    "look whether the host is overloaded or its disk is full",
                ) from None
            if isinstance(word, Ending):
                explained = self._transport.explain(word)
                noise = self._noise.decode(errors="replace").strip()
                raise explained or refusal.of_ending(self.name, self._python, word, noise)
            if "need" in word:
                self._send({"code": base64.b64encode(bundle().data).decode("ascii")})
            elif "refused" in word:
                raise refusal.of_agent(self.name, self._python, word)
            else:
                ready: Mapping[str, Any] = word["ready"]
                return ready

    def _request(self, calls: Sequence[Call], on_event: Event | None) -> list[dict[str, Any]]:
        cancel.check()
        number, box = self._open(calls)
        try:
            with cancel.waking(lambda: box.put({"woken": True})):
                while True:
                    message = box.get()
                    if "results" in message:
                        return list(message["results"])
                    if "lost" in message:
                        raise self._gone()
                    if "woken" in message:
                        cancel.check()
                    elif on_event is not None:
                        on_event(message["event"])
        except BaseException:
            self._send({"cancel": number})
            raise
        finally:
            self._forget(number)

    def _open(self, calls: Sequence[Call]) -> tuple[int, queue.Queue[dict[str, Any]]]:
        box: queue.Queue[dict[str, Any]] = queue.Queue()
        with self._lock:
            if self._lost is not None:
                raise self._gone()
            number = next(self._numbers)
            self._pending[number] = box
            self.round_trips += 1
        self._send({"id": number, "calls": [{"op": c.op, "args": dict(c.args)} for c in calls]})
        return number, box

    def _forget(self, number: int) -> None:
        self._pending.pop(number, None)

    def _answers(self, calls: Sequence[Call], results: Sequence[dict[str, Any]]) -> list[Any]:
        return [
            result["value"] if "error" not in result else self._error(call, result["error"])
            for call, result in zip(calls, results, strict=True)
        ]

    def _error(self, call: Call, error: Mapping[str, Any]) -> RemoteError:
        return RemoteError(
            self.name, call.op, str(error["kind"]), str(error["message"]), error.get("detail")
        )

    def _send(self, message: Mapping[str, Any]) -> None:
        # Never blocks: a link that takes no more bytes must not stop the watch over it.
        self._outgoing.put(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def _write(self) -> None:
        while (data := self._outgoing.get()) is not None:
            try:
                self._channel.send(data)
            except (OSError, EOFError):
                return  # the reader learns why, with the exit status and the last words

    def _read(self) -> None:
        line = bytearray()
        while data := self._receive():
            self._heard = time.monotonic()
            head, *others = data.split(b"\n")
            line += head
            for other in others:
                self._dispatch(bytes(line))
                line = bytearray(other)
            if len(line) > LONGEST_LINE:
                self._lose("what the host sends is not the agent's", repr(bytes(line[:200])))
                self._channel.close()
        self._noise = (self._noise + line)[-NOISE_KEPT:]
        ending = self._channel.ending()
        self._ready.put(ending)
        self._lose("the connection to the agent ended", ending.stderr.strip())

    def _receive(self) -> bytes:
        try:
            return self._channel.receive()
        except (OSError, EOFError):
            return b""

    def _dispatch(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            # A login shell's greeting; kept in case that it says why there is no agent.
            self._noise = (self._noise + line + b"\n")[-NOISE_KEPT:]
        elif "id" in message:
            box = self._pending.get(message["id"])
            if box is not None:
                box.put(message)
        elif message.keys() & {"need", "ready", "refused"}:
            self._ready.put(message)

    def _watch(self) -> None:
        heard = self._heard
        for count in itertools.count(1):
            heard = max(heard, self._heard)
            left = heard + self._limits.dead - time.monotonic()
            if left <= 0:
                self._lose("the host stopped answering", f"silent for {self._limits.dead:g} s")
                self._channel.close()
                return
            due = time.monotonic() + min(left, self._limits.ping)
            if self._closed.wait(due - time.monotonic()):
                return
            # While this machine stood still, the host was not asked: that is no silence of its.
            heard += time.monotonic() - due
            self._send({"ping": count})

    def _lose(self, what: str, why: str) -> None:
        with self._lock:
            if self._lost is None:
                self._lost = (what, why)
            pending = list(self._pending.values())
        for box in pending:
            box.put({"lost": True})

    def _gone(self) -> ConnectionLost:
        what, why = self._lost or ("the connection was closed", "")
        todo = "run the same command again: it takes up what is running"
        return ConnectionLost(self.name, what, why, todo)
