"""Looking at and signalling processes that the tests themselves started."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def children(pid: int) -> list[int]:
    """The direct children of a process, of all its threads; none when it is gone."""
    found: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for thread in threads:
        found += [int(word) for word in _read(pid, f"task/{thread.name}/children").split()]
    return found


def descendants(pid: int) -> list[int]:
    """Everything below a process, parents first."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
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


def command(pid: int) -> str:
    """A process's command line; empty when it is gone."""
    return _read(pid, "cmdline").replace("\0", " ").strip()


def _read(pid: int, name: str) -> str:
    """A file of a process; empty when it is gone, which it may be at any moment."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
