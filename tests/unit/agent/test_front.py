"""The front of a blue-green profile, as a process of its own."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deployctl.hosts.bundle import bundle
from tests.hosts.lab.ports import free_port

CONNECTIONS = 60


@pytest.fixture
def slot() -> Iterator[int]:
    """The port of a server that says back what it is told."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))

        def serve() -> None:
            for _ in range(CONNECTIONS):
                connection, _ = listener.accept()
                opened.enter_context(connection)
                connection.sendall(connection.recv(10))

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def test_more_connections_than_a_login_allows(slot: int, tmp_path: Path) -> None:
    archive, settings = tmp_path / "agent.pyz", tmp_path / "front.json"
    archive.write_bytes(bundle().data)
    port = free_port()
    told = {"host": "127.0.0.1", "port": port, "slot": "a", "target": slot}
    settings.write_text(json.dumps(told))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limit = f'ulimit -Sn 64; ulimit -Hn {hard}; exec "$@"'
    argv = ["sh", "-c", limit, "sh", sys.executable, str(archive), "front", str(settings)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as front, ExitStack() as opened:
        opened.callback(front.kill)
        assert front.stdout is not None and b"listening" in front.stdout.readline()
        for _ in range(CONNECTIONS):
            address = ("127.0.0.1", port)
            connection = opened.enter_context(socket.create_connection(address, timeout=60))
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"


def test_no_more_connections_than_it_can_hold(slot: int, tmp_path: Path) -> None:
    archive, settings = tmp_path / "agent.pyz", tmp_path / "front.json"
    archive.write_bytes(bundle().data)
    port = free_port()
    told = {"host": "127.0.0.1", "port": port, "slot": "a", "target": slot}
    settings.write_text(json.dumps(told))
    limit = 'ulimit -n 84; exec "$@"'
    argv = ["sh", "-c", limit, "sh", sys.executable, str(archive), "front", str(settings)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as front, ExitStack() as opened:
        opened.callback(front.kill)
        assert front.stdout is not None and b"listening" in front.stdout.readline()
        answers = []
        for _ in range(12):
            address = ("127.0.0.1", port)
            connection = opened.enter_context(socket.create_connection(address, timeout=60))
            try:
                connection.sendall(b"x")
                answers.append(connection.recv(1))
            except ConnectionError:
                answers.append(b"")
        assert answers == [b"x"] * 10 + [b""] * 2
