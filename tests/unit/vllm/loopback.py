"""A stand-in server on loopback sockets, whose every answer a test writes itself."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Behaviour = Callable[[socket.socket, bytes], None]
PATIENCE = 60.0
"""Seconds within which a busy machine lets the other side go on."""


@contextmanager
def serving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A stand-in server on loopback: reads one request a connection, then behaves."""
    listener = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()
    threads = []

    def serve_one(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(PATIENCE)
            try:
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                with connection:
                    behave(connection, _request(connection))
            except OSError:
                pass

    def accept() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve_one, args=(connection,))
            thread.start()
            threads.append(thread)

    accepting = threading.Thread(target=accept)
    accepting.start()
    port = listener.getsockname()[1]
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(PATIENCE)
        for thread in threads:
            thread.join(PATIENCE)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-le" in line),
        0,
    )
    while len(body) < length:
        body += _received(connection)
    return head + b"\r\n\r\n" + body


def _received(connection: socket.socket) -> bytes:
    """More of a request; ConnectionError where the client went away before it was whole."""
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the client went away")
    return data


def respond(status: str, body: bytes, kind: str = "application/json", more: int = 0) -> Behaviour:
    """Answer with a status and a body; `more` bytes are promised and never come."""

    def behave(connection: socket.socket, request: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body) + more}"
        connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)

    return behave


def stream(*parts: bytes, then: Callable[[socket.socket], None] | None = None) -> Behaviour:
    """Send server-sent events in chunks, then do something else than to end properly."""

    def behave(connection: socket.socket, request: bytes) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for part in parts:
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        if then is None:
            connection.sendall(b"0\r\n\r\n")
        else:
            then(connection)

    return behave


def events(*documents: object, done: bool = True) -> list[bytes]:
    lines = [b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents]
    return [*lines, b"data: [DONE]\n\n"] if done else lines


def until_closed(connection: socket.socket) -> None:
    """Stay silent until the client has gone."""
    while connection.recv(65536):
        pass
