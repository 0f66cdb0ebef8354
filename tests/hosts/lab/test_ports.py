"""What the tests rely on when they name a port for a server to come."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.hosts.lab.ports import FIRST, RANGE, free_port


def test_no_outgoing_connection_can_hold_it() -> None:
    low = int(RANGE.read_text().split()[0])
    assert all(FIRST <= free_port() < low for _ in range(50))


def test_never_the_same_twice() -> None:
    given = [free_port() for _ in range(500)]
    assert len(set(given)) == len(given)


def test_one_that_is_held_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as held:
        port = held.getsockname()[1]
        (tmp_path / "range").write_text(f"{port + 1} 60999\n")
        monkeypatch.setattr("tests.hosts.lab.ports._handed_out", set())
        monkeypatch.setattr("tests.hosts.lab.ports.RANGE", tmp_path / "range")
        monkeypatch.setattr("tests.hosts.lab.ports.FIRST", port)
        with pytest.raises(RuntimeError, match="no free port"):
            free_port()
    assert free_port() == port
