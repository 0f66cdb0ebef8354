"""Looking at and signalling processes that the tests themselves started."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def children(pid: int) -> list[int]:
    """The direct children of a process; none when it is gone."""
    return _families().get(pid, [])


def descendants(pid: int) -> list[int]:
    """Everything below a process, parents first."""
    families = _families()
    found: list[int] = []
    left = list(families.get(pid, []))
    while left:
        child = left.pop(0)
        found.append(child)
        left += families.get(child, [])
    return found


def name_of(pid: int) -> str:
    """A process's comm; empty when it is gone."""
    return _read(pid, "comm").strip()


def is_alive(pid: int) -> bool:
    """Whether it exists and is not a zombie."""
    return _read(pid, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def inner_number(pid: int) -> int:
    """A process's number in its own PID namespace; 0 when it is gone."""
    lines = _read(pid, "status").splitlines()
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), 0)


def command(pid: int) -> str:
    """A process's command line; empty when it is gone."""
    return _read(pid, "cmdline").replace("\0", " ").strip()


def _families() -> dict[int, list[int]]:
    """The children of every process. Not from /proc/PID/task/TID/children, which leaves out some
    that live while others end (proc(5))."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 (names alone: entries come and go)
        if entry.isdigit():
            after_name = _read(int(entry), "stat").rpartition(")")[2].split()
            if after_name:
                found.setdefault(int(after_name[1]), []).append(int(entry))
    return found


def _read(pid: int, name: str) -> str:
    """A file of a process; empty when it is gone, which it may be at any moment."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
