"""Who holds the GPUs: every process's open and mapped device files, by device number.

Only facts; whose a process is and whether it is stopped is decided by the controller. A table that
cannot be read is named, so that "not seen" is never taken for "not there".
"""

from __future__ import annotations

import functools
import os
import queue
import threading
from contextlib import suppress
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from ..core import layout
from ..processes import namespaces, processes
from ..processes.places import Places
from ..wire.gpus import Holder, Mark
from .devices import Devices

ANSWER_WITHIN = 2.0
"""Seconds for one process's tables: those of a process stuck in the kernel never come."""


def read_process(
    stat: processes.Stat,
    devices: Devices,
    root: str,
    places: Places,
    matters: Callable[[Holder], bool] = lambda facts: True,
) -> Iterable[Holder]:
    """What is known of a process, again and again with more of it, the safest tables first.

    The last one is complete; where the process does not matter, and nothing of it was hidden,
    whose it is and where it runs is left out. Reading maps and the command line takes the
    process's memory lock, which a process stuck in a driver may hold for ever: `read_all` goes on
    without it then.
    """
    base = _living_base(stat.pid, stat.state)
    unreadable: List[str] = []
    facts: Holder = {**bare_facts(stat), "unreadable": unreadable}
    if base is None:
        yield {**facts, "zombie": True}
        return
    marks = Marks(root)
    try:
        facts["namespaces"] = places.namespaces(stat.pid)
    except PermissionError:
        unreadable.append("ns")

    def known(hidden: Iterable[str] = ()) -> Holder:
        names = [*unreadable, *hidden]
        found: Holder = {**facts, "marks": marks.found(), "unreadable": names}
        return placed(found, places) if unreadable or matters(found) else found

    facts["devices"] = sorted(_open_devices(base, devices, marks, unreadable))
    yield known(hidden=("maps", "cmdline"))
    facts["mapped"] = sorted(_mapped_devices(base, devices, marks, unreadable))
    facts["command"] = processes.shown(processes.read_cmdline(stat.pid))
    for argument in facts["command"]:
        marks.see("argument", argument)
    yield known()


def bare_facts(stat: processes.Stat) -> Holder:
    """What anybody may know of a process."""
    return {
        "pid": stat.pid,
        "start": stat.start,
        "comm": stat.comm,
        "state": stat.state,
        "parent": stat.parent,
        "group": stat.group,
        "session": stat.session,
        "zombie": False,
        "uid": None,
        "user": None,
        "inner_pids": [stat.pid],
        "container": None,
        "service": None,
        "frozen": False,
        "namespaces": [],
        "executable": None,
        "devices": [],
        "mapped": [],
        "marks": [],
        "command": [],
        "unreadable": [],
    }


def _living_base(pid: int, state: str) -> Optional[str]:
    """Where the tables lie: a process whose first thread has ended lives on in its others."""
    base = "/proc/%d" % pid
    if state not in "ZX":
        return base
    try:
        threads = [name for name in os.listdir(base + "/task") if name != str(pid)]
        for name in threads:
            if namespaces.read_status("%s/task/%s" % (base, name))["State"][0] not in "ZX":
                return "%s/task/%s" % (base, name)
    except (OSError, KeyError):
        pass
    return None


def placed(facts: Holder, places: Places) -> Holder:
    """The same facts, with whose the process is and where it runs."""
    pid = facts["pid"]
    base = _living_base(pid, facts["state"])
    if base is None:
        return {**facts, "zombie": True}
    status = namespaces.read_status(base)
    uid = int(status["Uid"].split()[0])
    groups = namespaces.cgroups(pid)
    found: Holder = {
        **facts,
        "uid": uid,
        "user": places.user(uid),
        "inner_pids": [int(number) for number in status.get("NSpid", str(pid)).split()],
        "container": namespaces.container(groups),
        "service": namespaces.service(groups),
        "frozen": places.frozen(groups, namespaces.wait_channel(base)),
    }
    # A kernel thread has no executable; that of another user's process may be hidden.
    with suppress(OSError):
        found["executable"] = os.readlink(base + "/exe")
    return found


def _open_devices(
    base: str, devices: Devices, marks: "Marks", unreadable: List[str]
) -> Iterable[str]:
    found: Set[str] = set()
    try:
        numbers = os.listdir(base + "/fd")
        marks.see("directory", os.readlink(base + "/cwd"))
    except PermissionError:
        unreadable.append("fd")
        return found
    for number in numbers:
        link = "%s/fd/%s" % (base, number)
        try:
            target = os.readlink(link)
        except OSError:
            continue
        marks.see("file", target)
        # Asking a file on a network that is down would wait for it; device files are not there.
        if target.startswith("/dev/") or "nvidia" in target.rpartition("/")[2]:
            name = devices.of_file(link)
            if name:
                found.add(name)
    return found


def _mapped_devices(
    base: str, devices: Devices, marks: "Marks", unreadable: List[str]
) -> Iterable[str]:
    """A mapping keeps the device after its file is closed. Its number is that of the mapped
    file; the one in `maps` is the file system's."""
    found: Set[str] = set()
    try:
        with open(base + "/maps", "rb") as file:
            data = file.read()
    except PermissionError:
        unreadable.append("maps")
        return found
    telling = (b"/dev/", b"nvidia", *marks.beginnings)
    if not any(part in data for part in telling):
        return found
    seen: Set[bytes] = set()
    for line in data.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) < 6 or fields[5] in seen or not any(p in fields[5] for p in telling):
            continue
        seen.add(fields[5])
        path = fields[5].decode("utf-8", "replace")
        marks.see("mapping", path)
        if path.startswith("/dev/") or "nvidia" in path.rpartition("/")[2]:
            name = _mapped_file(base, fields[0].decode("ascii"), path, devices)
            if name:
                found.add(name)
    return found


def _mapped_file(base: str, addresses: str, path: str, devices: Devices) -> Optional[str]:
    first, last = (int(part, 16) for part in addresses.split("-"))
    by_address = "%s/map_files/%x-%x" % (base.split("/task/")[0], first, last)
    return devices.of_file(by_address) or devices.of_file(base + "/root" + path)


class Marks:
    """What ties a process to this host's units, environments and jobs: paths below the root. Of a
    unit beside the profile's own the name is `PROFILE/UNIT`."""

    def __init__(self, root: str) -> None:
        self._prefixes = _prefixes(root)
        self.beginnings = _beginnings(root)
        """The same in bytes: what names none of them in its tables has no mark."""
        self._found: Dict[str, Mark] = {}

    def see(self, how: str, path: str) -> None:
        for kind, prefix in self._prefixes:
            if path.startswith(prefix):
                name = path[len(prefix) :].split("/", 1)[0]
                if kind == "profiles":
                    name = layout.unit_below(prefix, path[len(prefix) :])
                self._found.setdefault(kind + name, {"kind": kind, "name": name, "how": how})

    def found(self) -> List[Mark]:
        return [self._found[key] for key in sorted(self._found)]


KINDS = ("profiles", "environments", "jobs")


@functools.lru_cache(maxsize=None)
def _prefixes(root: str) -> List[Tuple[str, str]]:
    """Kinds with the beginnings of their paths: as they are given and, where the root is a link,
    as the kernel tells them. A link below the root is not followed: it may lead into another
    root, and what runs there is not ours."""
    tops = dict.fromkeys((root, os.path.realpath(root)))
    places = [(kind, os.path.join(top, kind)) for top in tops for kind in KINDS]
    return [(kind, place + "/") for kind, place in places]


@functools.lru_cache(maxsize=None)
def _beginnings(root: str) -> Tuple[bytes, ...]:
    return tuple(prefix.encode("utf-8", "replace") for _, prefix in _prefixes(root))


def read_all(
    stats: List[processes.Stat],
    read: Callable[[processes.Stat], Iterable[Holder]],
    within: float = ANSWER_WITHIN,
) -> List[Holder]:
    """Read every process's tables; one that does not answer in time is left with what was read.

    The reading thread is abandoned then, and another goes on with the rest.
    """
    found: Dict[int, Holder] = {}
    rest = list(stats)
    while rest:
        answers: "queue.Queue[bool]" = queue.Queue()
        known: Dict[int, Holder] = {}
        reading = (answers, known, list(rest), read)
        threading.Thread(target=_read_into, args=reading, daemon=True).start()
        while rest:
            try:
                there = _next(answers, within)
            except queue.Empty:
                stuck = rest.pop(0)
                nothing: Holder = {**bare_facts(stuck), "unreadable": ["everything"]}
                found[stuck.pid] = known.get(stuck.pid, nothing)
                break
            pid = rest.pop(0).pid
            if there:
                found[pid] = known[pid]
    return list(found.values())


def _next(answers: "queue.Queue[bool]", within: float) -> bool:
    """The next answer; twice half the time is waited for it, since a machine that stood still for
    all of it has heard no answer, and would take the wrong one for stuck. Raises `queue.Empty`."""
    with suppress(queue.Empty):
        return answers.get(timeout=within / 2)
    return answers.get(timeout=within / 2)


def _read_into(
    answers: "queue.Queue[bool]",
    known: Dict[int, Holder],
    stats: List[processes.Stat],
    read: Callable[[processes.Stat], Iterable[Holder]],
) -> None:
    """Read one after the other; yield whether each is still there."""
    for stat in stats:
        there = True
        try:
            for facts in read(stat):
                known[stat.pid] = facts
        except (FileNotFoundError, ProcessLookupError):
            there = False
        answers.put(there)
