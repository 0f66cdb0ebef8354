"""Ports for servers that a test starts a moment later."""

from __future__ import annotations

import random
import socket
from pathlib import Path

FIRST = 20000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_handed_out: set[int] = set()


def free_port() -> int:
    """A TCP port that nothing listens on, never the same twice in a run.

    It lies below those that the kernel gives to outgoing connections, of which one could hold it
    by the time the server starts: even a probe of the port itself, which may connect to itself.
    """
    end = int(RANGE.read_text().split()[0])
    candidates = [port for port in range(FIRST, end) if port not in _handed_out]
    random.shuffle(candidates)
    for port in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        _handed_out.add(port)
        return port
    raise RuntimeError(f"no free port from {FIRST} to {end - 1}")
