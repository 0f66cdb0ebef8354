"""A port of a host, here: relayed through the agent, so that no SSH server must allow forwarding
and a container without an address of its own is reached as well."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from deployctl.agent.wire.answers import Relayed
from deployctl.errors import HostError
from deployctl.hosts.operations import network
from deployctl.hosts.session import Session
from deployctl.hosts.stream import AHEAD, Stream

PIECE = 32 * 1024
JOIN_LIMIT = 5.0


class Tunnel:
    """Listens on a free loopback port here while the context lasts; every connection to it is
    relayed to `address` and `port` as the host sees them."""

    def __init__(self, session: Session, address: str, port: int) -> None:
        self._session = session
        self._target = (address, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._relays: set[_Relay] = set()
        self._accepting = threading.Thread(target=self._accept, name="tunnel", daemon=True)

    @property
    def url(self) -> str:
        """Where the port is reached from here, without a slash at its end."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Tunnel:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would not wake a thread that waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for relay in list(self._relays):
            relay.stop()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                stream = self._session.stream(
                    network.connect, address=self._target[0], port=self._target[1]
                )
            except HostError:
                connection.close()  # the host is gone; whoever asked learns it by the end
                continue
            relay = _Relay(connection, stream, self._relays.discard)
            self._relays.add(relay)
            relay.start()


class _Relay:
    """One connection: a thread for each direction, both ended by either side's end."""

    def __init__(
        self, connection: socket.socket, stream: Stream[Relayed], done: Callable[[_Relay], None]
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._done = done
        self._moved = threading.Condition()
        self._ahead = 0
        self._over = False
        self._threads = [
            threading.Thread(target=work, name="relay", daemon=True)
            for work in (self._up, self._down)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stream.cancel()
        self._end()
        for thread in self._threads:
            thread.join(timeout=JOIN_LIMIT)

    def _up(self) -> None:
        with suppress(OSError):
            while data := self._connection.recv(PIECE):
                self._stream.feed({"data": base64.b64encode(data).decode("ascii")})
                with self._moved:
                    self._ahead += len(data)
                    self._moved.wait_for(lambda: self._ahead < AHEAD or self._over)
        self._stream.feed({"end": True})

    def _down(self) -> None:
        try:
            while (event := self._stream.next()) is not None:
                if "data" in event:
                    data = base64.b64decode(event["data"])
                    self._connection.sendall(data)
                    self._stream.feed({"taken": len(data)})
                elif "taken" in event:
                    with self._moved:
                        self._ahead -= event["taken"]
                        self._moved.notify_all()
                elif "end" in event:
                    self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            self._stream.cancel()  # whoever asked has left
            while self._stream.next() is not None:
                pass
        self._end()
        self._threads[0].join()
        self._connection.close()
        self._done(self)

    def _end(self) -> None:
        with self._moved:
            self._over = True
            self._moved.notify_all()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
