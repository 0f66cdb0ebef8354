"""Ports for servers that a test starts a moment later."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

FIRST = 20000
BLOCK = 64
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
CLAIMS = Path(tempfile.gettempdir()) / f"deployctl-test-ports-{os.getuid()}"
_claimed: list[int] = []
"""Locked files; held open for as long as this process lives."""


def free_port() -> int:
    """A TCP port that nothing listens on, never the same twice in a run.

    It lies below those that the kernel gives to outgoing connections, of which one could hold it
    by the time the server starts: even a probe of the port itself, which may connect to itself.
    Nor does another worker, or another test run on this machine, hand it out meanwhile.
    """
    return next(_ports)


def free_ports(claims: Path) -> Iterator[int]:
    """Ports from blocks that this process alone has claimed, for as long as it lives."""
    end = int(RANGE.read_text().split()[0])
    blocks = list(range(FIRST, end, BLOCK))
    random.shuffle(blocks)
    for block in blocks:
        if not _claim(claims / str(block)):
            continue
        for port in range(block, min(block + BLOCK, end)):
            if _is_free(port):
                yield port
    raise RuntimeError(f"no free port from {FIRST} to {end - 1}")


def _claim(path: Path) -> bool:
    """Whether this process is now the only one to hold a file's lock."""
    path.parent.mkdir(exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _claimed.append(file)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


_ports = free_ports(CLAIMS)
