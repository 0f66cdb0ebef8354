"""Processes by identity: a pid together with its start time, watched and ended through a pidfd."""

from __future__ import annotations

import os
import re
import select
import signal
import threading
import time
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from ..core.interface import AgentError, Call
from ..wire.answers import Process
from . import namespaces

TICKS = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """The parts of /proc/PID/stat that are used; `start` is in clock ticks since boot."""

    pid: int
    comm: str
    state: str
    parent: int
    group: int
    session: int
    cpu: int
    start: int


def moved(stats: Iterable[Stat]) -> Optional[Dict[str, int]]:
    """Bytes that processes have `read` from disks and `written` to them, as /proc/PID/io counts
    (proc_pid_io(5)); None where that may not be read of one."""
    total = {"read": 0, "written": 0}
    for stat in stats:
        try:
            with open(f"/proc/{stat.pid}/io", encoding="ascii") as file:
                counts = dict(line.split(": ") for line in file.read().splitlines())
            total["read"] += int(counts["read_bytes"])
            total["written"] += int(counts["write_bytes"])
        except (FileNotFoundError, ProcessLookupError):
            continue
        except (OSError, KeyError, ValueError):
            return None
    return total


def read_stat(pid: int) -> Optional[Stat]:
    """None when there is no such process (any more)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    head, tail = text.rsplit(")", 1)
    rest = tail.split()
    return Stat(
        pid,
        head.split("(", 1)[1],
        rest[0],
        int(rest[1]),
        int(rest[2]),
        int(rest[3]),
        int(rest[11]) + int(rest[12]),
        int(rest[19]),
    )


def everyone() -> List[Stat]:
    """All processes of this PID namespace."""
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [stat for stat in found if stat is not None]


def is_same(pid: int, start: int) -> bool:
    """Whether the process with this pid is still the one that started then, and not a zombie."""
    stat = read_stat(pid)
    return stat is not None and stat.start == start and stat.state not in "ZX"


def session_members(session: int) -> List[Stat]:
    """Living processes of a session, zombies left out: they hold nothing."""
    return [s for s in everyone() if s.session == session and s.state not in "ZX"]


def members(mark: str, session: Optional[int] = None, scope: Optional[str] = None) -> List[Stat]:
    """Living processes that were started with this `NAME=value` in their environment, or belong to
    this session, or to the control group of this unit of systemd's or one below it."""
    wanted = mark.encode()
    return [
        stat
        for stat in everyone()
        if stat.state not in "ZX"
        and (stat.session == session or _carries(stat.pid, wanted) or _below(stat.pid, scope))
    ]


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            # Another user could give the mark to any process.
            own = os.fstat(file.fileno()).st_uid == os.geteuid()
            return own and mark in file.read().split(b"\0")
    except OSError:
        return False


def _below(pid: int, scope: Optional[str]) -> bool:
    try:
        return scope is not None and any(
            scope in path.split("/") for _, path in namespaces.cgroups(pid)
        )
    except OSError:
        return False


def started_at(start: int) -> float:
    """Unix time of a start given in ticks since boot; exact to about 10 ms.

    Not from /proc/stat's btime, which has whole seconds.
    """
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round(boot + start / TICKS, 2)


SECRET = re.compile(r"(?i)([\w-]*(?:key|token|secret|password|passwd))(=.*)?", re.DOTALL)
"""An argument with a secret value: `--api-key VALUE`, `--token=VALUE`, `HF_TOKEN=VALUE`."""


def without_secrets(argv: Sequence[str]) -> List[str]:
    """A command line fit to be shown: what other people gave their programs can be secret."""
    shown: List[str] = []
    hide = False
    for argument in argv:
        found = SECRET.fullmatch(argument)
        value = found.group(2) if found else None
        if hide:
            shown.append("***")
        elif found and value:
            shown.append(found.group(1) + "=***")
        else:
            shown.append(re.sub(r"://[^/@\s]+@", "://***@", argument))
        hide = not hide and found is not None and value is None and argument.startswith("-")
    return shown


def command(pid: int, within: float = 1.0) -> List[str]:
    """The argv of a process without secrets; empty for a zombie, a process that is gone, or one
    that is stuck in the kernel: reading it waits for the lock on its memory, for ever perhaps."""
    read: List[bytes] = []
    reader = threading.Thread(target=lambda: read.append(read_cmdline(pid)), daemon=True)
    reader.start()
    for _ in range(2):
        # A machine that stood still for all of the first half gives the reader the second.
        reader.join(within / 2)
    return shown(read[0]) if read else []


def shown(cmdline: bytes) -> List[str]:
    """The argv in the bytes of /proc/PID/cmdline, without secrets."""
    parts = cmdline.rstrip(b"\0").split(b"\0")
    return without_secrets([part.decode("utf-8", "replace") for part in parts if part])


def read_cmdline(pid: int) -> bytes:
    """The bytes of /proc/PID/cmdline; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def describe_process(stat: Stat) -> Process:
    """What a person must know to recognise a process."""
    return {
        "pid": stat.pid,
        "start": stat.start,
        "started": started_at(stat.start),
        "comm": stat.comm,
        "state": stat.state,
        "parent": stat.parent,
        "session": stat.session,
        "command": " ".join(command(stat.pid))[:300],
    }


class Stopped(NamedTuple):
    """What became of processes that were asked to end."""

    gone: List[int]
    killed: List[int]
    left: List[int]


def stop(targets: Iterable[Stat], grace: float, patience: float = 10.0) -> Stopped:
    """SIGTERM, wait `grace` seconds, SIGKILL, wait `patience`: through pidfds, so that a pid that
    was given to another process meanwhile is never signalled. `left` survived even SIGKILL."""
    held: Dict[int, int] = {}
    for target in targets:
        try:
            fd = os.pidfd_open(target.pid)
        except OSError:
            continue
        if is_same(target.pid, target.start):
            held[target.pid] = fd
        else:
            os.close(fd)
    all_pids = list(held)
    try:
        waiting = signal_and_wait(held, all_pids, signal.SIGTERM, grace)
        killed = list(waiting)
        left = signal_and_wait(held, waiting, signal.SIGKILL, patience) if waiting else []
    finally:
        for fd in held.values():
            os.close(fd)
    return Stopped([p for p in all_pids if p not in left], killed, left)


def stop_all(look: Callable[[], List[Stat]], grace: float) -> Stopped:
    """`stop`, and once more for what `look` finds then: some start others while they are ended."""
    found = look()
    first = stop(found, grace)
    more = [stat for stat in look() if stat.pid not in first.left] if found else []
    second = stop(more, 0.0)
    return Stopped(*(one + two for one, two in zip(first, second)))


def signal_and_wait(
    held: Dict[int, int], pids: Sequence[int], number: signal.Signals, seconds: float
) -> List[int]:
    """Signal processes through their pidfds; returns those that live on after `seconds`."""
    for pid in pids:
        try:
            signal.pidfd_send_signal(held[pid], number)
        except (ProcessLookupError, PermissionError):
            pass  # gone, or somebody else's by now (sudo): then it is among those that live on
    return wait(held, pids, seconds)


def wait(held: Dict[int, int], pids: Sequence[int], seconds: float) -> List[int]:
    """Wait until processes have ended, by their pidfds; returns those that have not by then."""
    end = time.monotonic() + seconds
    waiting = list(pids)
    while waiting:
        left = end - time.monotonic()
        poll = select.poll()
        for pid in waiting:
            poll.register(held[pid], select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0.0, left) * 1000.0)}
        waiting = [p for p in waiting if held[p] not in ready]
        if left <= 0:
            break
    return waiting


def describe(call: Call, pid: int) -> Process:
    """One process; error `gone` where there is none."""
    stat = read_stat(pid)
    if stat is None:
        raise AgentError("gone", f"no process {pid}")
    return describe_process(stat)


OPERATIONS = (describe,)
