"""Looking at and signalling processes that the tests themselves started."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def children(pid: int) -> list[int]:
    """The direct children of a process, of all its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Everything below a process, parents first."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def name_of(pid: int) -> str:
    """A process's comm; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether it exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def command(pid: int) -> str:
    """A process's command line; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
