"""What the tests rely on when they name a port for a server to come."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.lab.ports import BLOCK, FIRST, RANGE, free_port, free_ports


def test_no_outgoing_connection_can_hold_it() -> None:
    low = int(RANGE.read_text().split()[0])
    assert all(FIRST <= free_port() < low for _ in range(50))


def test_never_the_same_twice() -> None:
    given = [free_port() for _ in range(500)]
    assert len(set(given)) == len(given)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A port that something listens on: the only one that there is to hand out."""
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        port: int = listener.getsockname()[1]
        (tmp_path / "range").write_text(f"{port + 1} 60999\n")
        monkeypatch.setattr("tests.hosts.lab.ports.RANGE", tmp_path / "range")
        monkeypatch.setattr("tests.hosts.lab.ports.FIRST", port)
        with pytest.raises(RuntimeError, match="no free port"):
            next(free_ports(tmp_path / "claims"))
    return port


def test_one_that_is_held_is_passed_over(held: int, tmp_path: Path) -> None:
    assert next(free_ports(tmp_path / "other claims")) == held


def test_what_another_process_has_claimed_is_passed_over(tmp_path: Path) -> None:
    code = "import sys, pathlib; from tests.hosts.lab import ports\n"
    code += "print(next(ports.free_ports(pathlib.Path(sys.argv[1]))), flush=True); input()"
    low = int(RANGE.read_text().split()[0])
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        with pytest.raises(RuntimeError, match="no free port"):
            for port in free_ports(tmp_path):
                assert FIRST <= port < low and abs(port - theirs) > 0
                assert (port - FIRST) // BLOCK != (theirs - FIRST) // BLOCK
        other.communicate("\n")
