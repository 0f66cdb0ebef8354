"""What holds the supervisors of a group's ranks together: a connection from each to the head's.

vLLM notices little of the end of another rank: a head whose worker was killed answers /health
until the first other request, and a worker without its head waits for ever. So each
supervisor says a word a second; where one falls silent, or its connection ends, the others end
their servers too, and start them again once all are there.
"""

from __future__ import annotations

import hmac
import socket
import threading
import time
from contextlib import suppress
from typing import Dict

from ..wire.bonds import BondSpec

BEAT = 1.0
SILENCE = 20.0
"""Seconds between two words, and without one after which a rank counts as gone."""
AGAIN = 0.3
"""Seconds between two attempts to listen or to connect."""
ACCEPTED = b"+"
LONGEST = 200


class Bond:
    """One supervisor's part while its server runs. `whole` is set once all ranks are there (for
    another than the head: once the head is), and `lost` says who is gone, once one is."""

    def __init__(self, spec: BondSpec) -> None:
        self._spec = spec
        self.lost = ""
        self.whole = threading.Event()
        self._closed = threading.Event()
        self._present: Dict[int, socket.socket] = {}
        self._changing = threading.Lock()

    def __enter__(self) -> "Bond":
        work = self._join if self._spec["rank"] else self._lead
        threading.Thread(target=work, name="bond", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        with self._changing:
            for connection in self._present.values():
                _end(connection)

    @property
    def _over(self) -> bool:
        return self._closed.is_set() or bool(self.lost)

    def _lead(self) -> None:
        place = (self._spec["address"], self._spec["port"])
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        while not self._over:
            try:
                door = socket.create_server(place, family=family)
            except OSError:
                self._closed.wait(AGAIN)
                continue
            with door:
                door.settimeout(AGAIN)
                while not self._over:
                    with suppress(OSError):
                        connection, _ = door.accept()
                        threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        """Of a rank that comes: who it is, and then whether it lives."""
        with connection:
            connection.settimeout(SILENCE)
            with suppress(OSError, ValueError):
                token, _, number = _line(connection).partition(" ")
                if not hmac.compare_digest(token, self._spec["token"]):
                    return
                if self._takes(int(number), connection):
                    connection.sendall(ACCEPTED)
                    self._beat(int(number), connection)

    def _takes(self, rank: int, connection: socket.socket) -> bool:
        with self._changing:
            if self._over or rank in self._present or not 0 < rank < self._spec["ranks"]:
                return False
            self._present[rank] = connection
            if len(self._present) == self._spec["ranks"] - 1:
                self.whole.set()
        return True

    def _join(self) -> None:
        place = (self._spec["address"], self._spec["port"])
        greeting = "%s %d\n" % (self._spec["token"], self._spec["rank"])
        while not self._over:
            with suppress(OSError), socket.create_connection(place, timeout=SILENCE) as connection:
                connection.sendall(greeting.encode("ascii"))
                if connection.recv(1) == ACCEPTED:
                    with self._changing:
                        self._present[0] = connection
                    self.whole.set()
                    return self._beat(0, connection)
            self._closed.wait(AGAIN)
        return None

    def _beat(self, rank: int, connection: socket.socket) -> None:
        heard = time.monotonic()
        connection.settimeout(BEAT)
        while not self._over:
            try:
                connection.sendall(b".")
                ended = not connection.recv(4096)
                heard = time.monotonic()
            except socket.timeout:
                ended = False
            except OSError:
                ended = True
            if ended or time.monotonic() - heard > SILENCE:
                how = "has ended" if ended else "has been silent for %g s" % SILENCE
                if not self._closed.is_set():
                    self.lost = self.lost or "rank %d %s" % (rank, how)
                return
            self._closed.wait(BEAT)


def _line(connection: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\n") and len(data) < LONGEST:
        piece = connection.recv(1)
        if not piece:
            break
        data += piece
    return data.decode("ascii").strip()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
