"""A client that asks all the while, and knows when it was answered."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from deployctl.engine.run.events import Event, Listener, StepStarted

STEP = 0.02
SILENT = 9000
"""Steps without a byte after which an answer is none: a server that is slow serves all the same.
Counted, not timed: while the machine stands still, no client waits."""
REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
GIVEN_UP = 120.0
"""Seconds for a look."""


class PollingClient:
    """Asks /v1/models every 20 ms from the moment it is entered until it is left.

    `gaps` lists its outages, each from when the first question was refused to when the last one
    was asked: so long nothing served for certain, however late the client was to notice that it
    began and that it is over. An outage of which the client was told too late is not in it: let
    what is measured wait for a `look` where one is to be seen. One that it is in when it is left is
    followed to its end.
    """

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._asked = threading.Condition()
        self._questions = 0
        self._refused: float | None = None
        """When the outage that it is in was noticed."""
        self.gaps: list[float] = []
        self.answers = 0

    def __enter__(self) -> PollingClient:
        self._thread.start()
        self.look()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        until = time.monotonic() + GIVEN_UP
        if kind is None:
            self.look()
            while self._refused is not None and time.monotonic() < until:
                self.look()
        self._over.set()
        self._thread.join()

    def look(self) -> None:
        """Wait until a question that was asked after now has been answered or refused."""
        with self._asked:
            # The next one may have been asked before.
            wanted = self._questions + 2
            seen = self._asked.wait_for(lambda: self._questions >= wanted, GIVEN_UP)
        assert seen, "the client does not ask any more"

    def looks_at(self, *steps: str) -> Listener:
        """A listener that holds a run up at the beginning of these steps, for a `look`."""

        def listen(event: Event) -> None:
            if isinstance(event, StepStarted) and event.step in steps:
                self.look()

        return listen

    def after(self, function: Callable[..., object]) -> Callable[..., object]:
        """The same function, which begins with a `look`."""

        def looked(*arguments: object) -> object:
            self.look()
            return function(*arguments)

        return looked

    def _ask(self) -> None:
        last = 0.0
        while not self._over.wait(STEP):
            asked = time.monotonic()
            if self._answers():
                if self._refused is not None:
                    self.gaps.append(max(0.0, last - self._refused))
                    self._refused = None
                self.answers += 1
            else:
                self._refused, last = self._refused or time.monotonic(), asked
            with self._asked:
                self._questions += 1
                self._asked.notify_all()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(self._address) as connection:
                connection.sendall(REQUEST)
                return received(connection).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False


def received(connection: socket.socket) -> bytes:
    """All that is answered; an OSError where nothing comes for too many steps."""
    connection.settimeout(STEP)
    answer, silent = b"", 0
    while silent < SILENT:
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            silent += 1
            continue
        if not piece:
            return answer
        answer, silent = answer + piece, 0
    raise TimeoutError("no answer")
