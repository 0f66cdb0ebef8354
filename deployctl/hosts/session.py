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

from deployctl.errors import ConnectionLost, HostError, NoPython, RemoteError
from deployctl.hosts.bundle import BOOTSTRAP, bundle
from deployctl.hosts.interface import Channel, Transport

Event = Callable[[dict[str, Any]], None]
PYTHON_KEY = "python: /path/to/python3"


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
        self._numbers = itertools.count(1)
        self._pending: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._ready: queue.Queue[dict[str, Any]] = queue.Queue()
        self._lost: ConnectionLost | None = None
        self._heard = time.monotonic()
        self._closed = threading.Event()
        self._python = python
        self._channel: Channel = transport.open([python, "-c", BOOTSTRAP])
        self._send({"hash": bundle().sha256, "root": root, "silence": limits.silence})
        threading.Thread(target=self._read, name=f"read {self.name}", daemon=True).start()
        self.agent: Mapping[str, Any] = self._start()
        threading.Thread(target=self._watch, name=f"watch {self.name}", daemon=True).start()

    @property
    def root(self) -> str:
        """The directory on the host that holds everything of deployctl's."""
        return str(self.agent["root"])

    def ask(self, calls: Sequence[Call], on_event: Event | None = None) -> list[Any]:
        """Several operations in one round trip; each answer is a value or a `RemoteError`."""
        results = self._request(calls, on_event)
        return [
            result["value"] if "error" not in result else self._error(call, result["error"])
            for call, result in zip(calls, results, strict=True)
        ]

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
        self._channel.close()
        self._transport.close()

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
                message = self._ready.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.close()
                raise ConnectionLost(
                    self.name,
                    "the agent did not start",
                    f"no word from it within {self._limits.start:g} s",
                    "look whether the host is overloaded or its disk is full",
                ) from None
            if "need" in message:
                self._send({"code": base64.b64encode(bundle().data).decode("ascii")})
            elif "ready" in message:
                ready: Mapping[str, Any] = message["ready"]
                return ready
            else:
                self.close()
                raise self._refusal(message)

    def _refusal(self, message: Mapping[str, Any]) -> HostError:
        if message.get("refused") == "python":
            return NoPython(
                self.name,
                f"python3 there is {message['why']}, the agent needs 3.9 or newer",
                next=f"install a newer one there and name it in the host file: {PYTHON_KEY}",
            )
        if message.get("refused") == "root":
            return HostError(
                self.name,
                "the agent's directory cannot be written",
                str(message["why"]),
                "name a writable one in the host file: root: /path",
            )
        status, stderr = message.get("status"), str(message.get("stderr", "")).strip()
        if status == 127 or "not found" in stderr or "No such file" in stderr:
            return NoPython(
                self.name,
                f"no usable {self._python} on the host",
                stderr,
                f"install Python 3.9 or newer there, or name it in the host file: {PYTHON_KEY}",
            )
        return ConnectionLost(
            self.name,
            f"the agent ended before it began, status {'unknown' if status is None else status}",
            stderr,
            f"try it by hand: {self._python} -V on {self.name}",
        )

    def _request(self, calls: Sequence[Call], on_event: Event | None) -> list[dict[str, Any]]:
        number, box = self._open(calls)
        try:
            while True:
                message = box.get()
                if "results" in message:
                    return list(message["results"])
                if "lost" in message:
                    raise self._lost or ConnectionLost(self.name, "the connection was closed")
                if on_event is not None:
                    on_event(message["event"])
        except BaseException:
            if self._lost is None and not self._closed.is_set():
                self._send({"cancel": number})
            raise
        finally:
            self._pending.pop(number, None)

    def _open(self, calls: Sequence[Call]) -> tuple[int, queue.Queue[dict[str, Any]]]:
        number = next(self._numbers)
        box: queue.Queue[dict[str, Any]] = queue.Queue()
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._pending[number] = box
        self.round_trips += 1
        self._send({"id": number, "calls": [{"op": c.op, "args": dict(c.args)} for c in calls]})
        return number, box

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._channel.send(data)
            except (OSError, EOFError):
                # The reader learns why, with the exit status and the last words.
                return

    def _read(self) -> None:
        rest = b""
        while data := self._receive():
            self._heard = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._dispatch(line)
        ending = self._channel.ending()
        self._ready.put({"status": ending.status, "stderr": ending.stderr})
        self._lose("the connection to the agent ended", ending.stderr.strip())

    def _receive(self) -> bytes:
        try:
            return self._channel.receive()
        except (OSError, EOFError):
            return b""

    def _dispatch(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # a login shell's greeting
        if not isinstance(message, dict) or "pong" in message:
            return
        if "id" in message:
            box = self._pending.get(message["id"])
            if box is not None:
                box.put(message)
        elif message.keys() & {"need", "ready", "refused"}:
            self._ready.put(message)

    def _watch(self) -> None:
        for count in itertools.count(1):
            if self._closed.wait(self._limits.ping):
                return
            if time.monotonic() - self._heard > self._limits.dead:
                self._lose("the host stopped answering", f"silent for {self._limits.dead:g} s")
                self._channel.close()
                return
            self._send({"ping": count})

    def _lose(self, what: str, why: str) -> None:
        with self._lock:
            if self._lost is None:
                self._lost = ConnectionLost(
                    self.name, what, why, "run the same command again: it takes up what is running"
                )
            pending = list(self._pending.values())
        for box in pending:
            box.put({"lost": True})

    def _error(self, call: Call, error: Mapping[str, Any]) -> RemoteError:
        return RemoteError(
            self.name, call.op, str(error["kind"]), str(error["message"]), error.get("detail")
        )


class Stream:
    """A running operation: `feed` it, take its `events`; `cancel` ends it."""

    def __init__(self, session: Session, call: Call) -> None:
        self._session = session
        self._call = call
        self._number, self._box = session._open([call])

    def feed(self, data: Any) -> None:
        """Hand the operation its next input."""
        self._session._send({"feed": self._number, "data": data})

    def cancel(self) -> None:
        """Ask the operation to end."""
        self._session._send({"cancel": self._number})

    def next(self) -> dict[str, Any] | None:
        """The next event, blocking; None when the operation has ended or the host is gone."""
        message = self._box.get()
        if "event" in message:
            event: dict[str, Any] = message["event"]
            return event
        self._session._pending.pop(self._number, None)
        return None
