"""One TCP connection of the host's, relayed over the conversation with the controller."""

from __future__ import annotations

import base64
import queue
import select
import socket
import threading
from typing import Any

from ..core.interface import BEAT, Call
from ..wire.answers import Relayed

RELAY_WINDOW = 1 << 20
"""Bytes that a relay sends ahead of what was acknowledged."""


def connect(call: Call, address: str, port: int) -> Relayed:
    """Relay one TCP connection until both sides have ended.

    Emits `{"connected": true}`, `{"data": base64}`, `{"end": true}` and `{"taken": bytes}`; is
    fed `{"data": base64}`, `{"end": true}` and `{"taken": bytes}`, where `taken` acknowledges
    data so that the other side may send more. Gives the bytes `sent` and `received`.
    """
    with socket.create_connection((address, port), timeout=10) as connection:
        connection.settimeout(None)
        call.emit({"connected": True})
        return _Relay(call, connection).run()


class _Relay:
    """Both directions of one relayed connection; the inbox drives it, a thread reads the socket."""

    def __init__(self, call: Call, connection: socket.socket) -> None:
        self._call = call
        self._connection = connection
        self._moved = threading.Condition()
        self._ahead = 0
        self._received = 0
        self._over = False

    def run(self) -> Relayed:
        reader = threading.Thread(target=self._from_socket, name="relay", daemon=True)
        reader.start()
        sent = 0
        open_ends = 2
        try:
            while open_ends:
                item = self._next()
                if item is None:
                    break
                if "data" in item:
                    data = base64.b64decode(item["data"])
                    self._send(data)
                    sent += len(data)
                    self._call.emit({"taken": len(data)})
                elif "taken" in item:
                    self._move(-item["taken"])
                elif "end" in item:
                    open_ends -= 1
                    shut(self._connection, socket.SHUT_WR)
                elif "read" in item:
                    open_ends -= 1
        except OSError:
            pass  # the server went away; the reader says so by its end
        shut(self._connection, socket.SHUT_RDWR)
        with self._moved:
            self._over = True
            self._moved.notify_all()
        reader.join()
        return {"sent": sent, "received": self._received}

    def _next(self) -> Any:
        while True:
            try:
                return self._call.inbox.get(timeout=BEAT)
            except queue.Empty:
                self._call.beat()

    def _send(self, data: bytes) -> None:
        """All of it, as the server takes it; one that takes nothing is given up with the call."""
        ready = select.poll()
        ready.register(self._connection, select.POLLOUT)
        while data and not self._call.cancelled.is_set():
            if ready.poll(200):
                try:
                    data = data[self._connection.send(data, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    continue

    def _from_socket(self) -> None:
        try:
            while True:
                with self._moved:
                    self._moved.wait_for(lambda: self._ahead < RELAY_WINDOW or self._over)
                data = self._connection.recv(32768)
                if not data or self._over:
                    break
                self._received += len(data)
                self._move(len(data))
                self._call.emit({"data": base64.b64encode(data).decode("ascii")})
        except OSError:
            pass  # reset by the server: an end like any other to whoever is at the far end
        self._call.emit({"end": True})
        self._call.inbox.put({"read": True})

    def _move(self, count: int) -> None:
        with self._moved:
            self._ahead += count
            self._moved.notify_all()


def shut(connection: socket.socket, how: int) -> None:
    """Shut a connection down, if it has not ended already."""
    try:
        connection.shutdown(how)
    except OSError:
        pass  # it has ended already
