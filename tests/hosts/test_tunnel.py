from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from deployctl.hosts.session import Session
from deployctl.hosts.tunnel import Tunnel
from deployctl.hosts.ways.local import LocalTransport

BIG = bytes(range(256)) * 20_000


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(BIG)))
        self.end_headers()
        self.wfile.write(BIG)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Clients that leave are what is tested."""


@pytest.fixture
def server() -> Iterator[int]:
    with Server(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(LocalTransport("local"), root=str(tmp_path)) as session:
        yield session


def test_more_than_a_window_goes_through_both_ways(session: Session, server: int) -> None:
    with Tunnel(session, "127.0.0.1", server) as tunnel, httpx.Client(timeout=60) as client:
        assert client.get(tunnel.url).content == BIG
        assert client.post(tunnel.url, content=BIG).content == BIG


def test_connections_do_not_wait_for_each_other(session: Session, server: int) -> None:
    with (
        Tunnel(session, "127.0.0.1", server) as tunnel,
        httpx.Client(timeout=60) as one,
        httpx.Client(timeout=60) as two,
        one.stream("GET", tunnel.url) as slow,
    ):
        assert two.post(tunnel.url, content=b"x").content == b"x"
        assert slow.read() == BIG


def test_nobody_listens(session: Session) -> None:
    with Tunnel(session, "127.0.0.1", 1) as tunnel, httpx.Client(timeout=60) as client:
        with pytest.raises(httpx.TransportError):
            client.get(tunnel.url)
        # The session itself is none the worse.
        assert session.call("network.listener", port=1)["listening"] is False


def test_a_client_that_leaves_ends_the_relay(
    session: Session, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployctl.hosts.tunnel.JOIN_LIMIT", 60)
    with (
        Tunnel(session, "127.0.0.1", server) as tunnel,
        httpx.Client(timeout=60) as client,
        client.stream("GET", tunnel.url) as answer,
    ):
        next(answer.iter_raw())
    # Leaving the tunnel waited for its relay, and the agent has none running either.
    assert session._link._requests == {}


def test_the_end_of_the_session_ends_open_connections(server: int, tmp_path: Path) -> None:
    session = Session(LocalTransport("local"), root=str(tmp_path))
    with Tunnel(session, "127.0.0.1", server) as tunnel, httpx.Client(timeout=60) as client:
        assert client.post(tunnel.url, content=b"x").status_code == 200
        session.close()
        with pytest.raises(httpx.TransportError):
            client.post(tunnel.url, content=b"x")


def test_a_server_that_takes_nothing_holds_nobody_up(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployctl.hosts.tunnel.JOIN_LIMIT", 60)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with Tunnel(session, "127.0.0.1", listener.getsockname()[1]) as tunnel:
            port = int(tunnel.url.rsplit(":", 1)[1])
            with socket.create_connection(("127.0.0.1", port), timeout=1) as client:
                with pytest.raises(TimeoutError):
                    client.sendall(bytes(64 << 20))
                began = time.monotonic()
        assert time.monotonic() - began < 50
