"""The processes that matter to the GPUs, and everything related to them, in one look."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from ..processes import namespaces, processes
from ..processes.pidfds import HANDLES, Identity
from ..processes.places import Places
from ..wire.gpus import Holder, Processes, UnreadableProcess
from .devices import Devices
from .holders import placed, read_all, read_process

NAMED = 20
"""Unreadable processes that are named one by one; the rest are counted."""


def survey(root: str, devices: Devices, patterns: Sequence[str]) -> Processes:
    """Holders of a device, processes whose name or command matches a pattern, processes below the
    root, and the relatives of all these: session, group, ancestors, descendants."""
    look = _Look(root, devices, [re.compile(pattern) for pattern in patterns])
    everyone = processes.everyone()
    facts = {entry["pid"]: entry for entry in read_all(everyone, look.read)}
    matter = {pid for pid, entry in facts.items() if look.matters(entry)}
    related = relatives(everyone, matter) - matter
    again = [stat for stat in everyone if stat.pid in related]
    known = read_all(again, lambda stat: look.read_related(stat, facts.get(stat.pid)))
    facts.update((entry["pid"], entry) for entry in known)
    chosen = [facts[pid] for pid in sorted(matter | related) if pid in facts]
    for entry in chosen:
        entry["started"] = processes.started_at(entry["start"])
    HANDLES.keep(look.handles)
    blind = [entry for entry in facts.values() if entry["unreadable"] and not entry["zombie"]]
    return {
        "processes": chosen,
        "unreadable": [_name(entry) for entry in blind[:NAMED]],
        "unreadable_count": len(blind),
        "hidden": namespaces.hidden_processes(),
        "contained": namespaces.contained(),
        "namespace": namespaces.namespace("self"),
        "namespaces": sorted({ino for entry in facts.values() for ino in entry["namespaces"]}),
        "own": sorted(_ancestors(everyone, os.getpid())),
    }


class _Look:
    """Reads processes and holds on to those that matter."""

    def __init__(self, root: str, devices: Devices, patterns: "List[re.Pattern[str]]") -> None:
        self._root = root
        self._devices = devices
        self._patterns = patterns
        self._places = Places()
        self._named: Dict[Tuple[str, ...], bool] = {}
        self.handles: Dict[Identity, int] = {}

    def read(self, stat: processes.Stat) -> Iterable[Holder]:
        """A process's tables; held where it matters."""
        with self._held(stat) as (now, keep):
            for facts in read_process(now, self._devices, self._root, self._places, self.matters):
                if self.matters(facts):
                    keep()
                yield facts

    def read_related(self, stat: processes.Stat, before: Optional[Holder]) -> Iterable[Holder]:
        """A process that matters through another; held. Its tables were read `before`."""
        with self._held(stat) as (now, keep):
            keep()
            if before is None or before["zombie"] or before["start"] != now.start:
                yield from read_process(now, self._devices, self._root, self._places)
            else:
                yield placed(before, self._places)

    @contextmanager
    def _held(self, stat: processes.Stat) -> Iterator[Tuple[processes.Stat, Callable[[], None]]]:
        """A process that is held before anything is read: what is read then belongs to what is
        held. It is let go at the end unless it is to be kept."""
        handle = os.pidfd_open(stat.pid)
        identity: Optional[Identity] = None

        def keep() -> None:
            nonlocal identity
            identity = (stat.pid, stat.start)
            self.handles[identity] = handle

        try:
            now = processes.read_stat(stat.pid)
            if now is None or now.start != stat.start:
                raise ProcessLookupError(stat.pid)
            yield now, keep
        finally:
            if identity is None:
                os.close(handle)

    def matters(self, facts: Holder) -> bool:
        """Whether a process has to do with a GPU or with us by itself."""
        if facts["devices"] or facts["mapped"] or facts["marks"]:
            return True
        words = (facts["comm"], " ".join(facts["command"]))
        if words not in self._named:
            self._named[words] = any(p.search(word) for p in self._patterns for word in words)
        return self._named[words]


def relatives(everyone: Sequence[processes.Stat], of: Set[int]) -> Set[int]:
    """Session and group members, ancestors and descendants of the given processes."""
    sessions = {stat.session for stat in everyone if stat.pid in of} - {0}
    groups = {stat.group for stat in everyone if stat.pid in of} - {0}
    found = {s.pid for s in everyone if s.session in sessions or s.group in groups} | of
    for pid in of:
        found |= _ancestors(everyone, pid)
    return found | _below(everyone, of)


def _below(everyone: Sequence[processes.Stat], of: Set[int]) -> Set[int]:
    """The given processes and everything that descends from them."""
    found = set(of)
    grown = True
    while grown:
        more = {stat.pid for stat in everyone if stat.parent in found}
        grown = not more <= found
        found |= more
    return found


def _ancestors(everyone: Sequence[processes.Stat], pid: int) -> Set[int]:
    """A process, its parent, and so on up to init, which is left out."""
    parents = {stat.pid: stat.parent for stat in everyone}
    found: Set[int] = set()
    while pid > 1 and pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found


def _name(facts: Holder) -> UnreadableProcess:
    return {
        "pid": facts["pid"],
        "comm": facts["comm"],
        "user": facts["user"],
        "unreadable": facts["unreadable"],
    }
