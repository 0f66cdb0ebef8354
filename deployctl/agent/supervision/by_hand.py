"""A server that was started by hand and adopted: which processes it has, and how it ends.

It has neither a session of its own nor a mark. It consists of its main process, what descends from
that, and what is left of its process group or session where it led one.
"""

from __future__ import annotations

from typing import List, Set

from ..processes import processes
from ..processes.processes import Stat

KIND = "by-hand"
"""The `kind` of such a unit: it has no supervisor."""


def tree(pid: int) -> List[Stat]:
    """Every living process of a server by its main process."""
    alive = [stat for stat in processes.everyone() if stat.state not in "ZX"]
    found: Set[int] = {s.pid for s in alive if pid in (s.pid, s.group, s.session)}
    grown = True
    while grown:
        more = {s.pid for s in alive if s.parent in found} - found
        found |= more
        grown = bool(more)
    return [stat for stat in alive if stat.pid in found]


def end(pid: int, members: List[Stat], grace: float) -> None:
    """Ask the main process to end, which ends its own children in order, and wait `grace` seconds.
    What it leaves, also in a group that was not its own, is stopped after it."""
    main = [stat for stat in members if stat.pid == pid]
    processes.stop(main, grace)
    processes.stop([stat for stat in members if stat.pid != pid], grace if not main else 5.0)
