"""Namespaces of the kernel, and waiting for what happens in them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_LIMIT = 120.0
_LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def wait_for(what: str, condition: Callable[[], object], limit: float = START_LIMIT) -> None:
    """Look until it is so; raises TimeoutError that says what was not."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit:g} s: {what}")
        time.sleep(0.01)


def enter_network(path: Path | str) -> None:
    """Move this thread, and what it starts from now on, into another network."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)


def in_namespaces(
    argv: Sequence[str], unshared: Sequence[str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a program in namespaces of its own that dies with us, however we die."""
    with log.open("ab") as output:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *unshared, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
