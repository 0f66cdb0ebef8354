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
from typing import Any

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


@pytest.fixture
def turned(tmp_path: Path) -> Iterator[tuple[Path, dict[str, Any], socket.socket]]:
    """A front that runs: its file, what that holds, and the slot that it leads to."""
    archive, file, port = tmp_path / "agent.pyz", tmp_path / "front.json", free_port()
    archive.write_bytes(bundle().data)
    with socket.create_server(("127.0.0.1", 0)) as first:
        told: dict[str, Any] = {"host": "127.0.0.1", "port": port, "slot": "blue"}
        told["target"] = first.getsockname()[1]
        file.write_text(json.dumps(told))
        argv = [sys.executable, str(archive), "front", str(file)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as front:
            assert front.stdout is not None and b"listening" in front.stdout.readline()
            yield file, told, first
            front.kill()


def replace(file: Path, told: dict[str, Any]) -> None:
    other = file.with_suffix(".new")
    other.write_text(json.dumps(told))
    other.rename(file)


def test_new_connections_wait_and_open_ones_are_closed(
    turned: tuple[Path, dict[str, Any], socket.socket], slot: int
) -> None:
    file, told, first = turned
    address = ("127.0.0.1", told["port"])
    with ExitStack() as opened:
        kept = opened.enter_context(socket.create_connection(address, timeout=60))
        opened.enter_context(first.accept()[0])
        replace(file, {**told, "hold": 600})
        waits = opened.enter_context(socket.create_connection(address, timeout=60))
        waits.sendall(b"y")
        replace(file, {**told, "hold": 600, "cut": True})
        assert kept.recv(1) == b""
        replace(file, {**told, "target": slot})
        assert waits.recv(1) == b"y"


def test_nobody_waits_for_longer_than_the_file_says(
    turned: tuple[Path, dict[str, Any], socket.socket], slot: int
) -> None:
    file, told, _ = turned
    replace(file, {**told, "hold": 0.2, "target": slot})
    with socket.create_connection(("127.0.0.1", told["port"]), timeout=60) as connection:
        connection.sendall(b"z")
        assert connection.recv(1) == b"z"
