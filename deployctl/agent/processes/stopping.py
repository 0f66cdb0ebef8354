"""Ending processes that were looked at before, and saying of each what became of it."""

from __future__ import annotations

import os
import signal
from typing import Callable, Dict, List

from ..wire.gpus import Fate, StuckThread, Target
from . import namespaces, processes
from .pidfds import HANDLES, ended

WORDS = {
    "gone": "it had ended already",
    "spared": "it holds no GPU device any more",
    "frozen": "its control group is frozen: it takes no signal until it is thawed",
    "refused": "not permitted to signal it",
    "ended": "it ended on SIGTERM",
    "killed": "it ended on SIGKILL",
    "left": "it survives SIGKILL: it is stuck in the kernel, reboot needed",
}
"""What may become of a process that was to be stopped."""


class Stopping:
    """One round: SIGTERM to all, a common wait, SIGKILL to the rest, another wait.

    `holds` tells whether a process still has a GPU device; it is asked for targets whose only
    tie is that device (`device` true), before each signal.
    """

    def __init__(self, targets: List[Target], holds: Callable[[int], bool]) -> None:
        self._targets = targets
        self._holds = holds
        self._handles: Dict[int, int] = {}
        self._fate: Dict[int, str] = {}

    def run(self, grace: float, patience: float) -> List[Fate]:
        """Seconds from SIGTERM to SIGKILL, and from there until a process counts as stuck."""
        try:
            self._open()
            waiting = self._signal(list(self._handles), signal.SIGTERM, grace)
            self._settle("ended")
            waiting = [pid for pid in waiting if self._still_meant(pid)]
            left = self._signal(waiting, signal.SIGKILL, patience)
            self._settle("killed")
            for pid in left:
                self._fate.setdefault(pid, "left")
            return [self._row(target) for target in self._targets]
        finally:
            for handle in self._handles.values():
                os.close(handle)

    def _open(self) -> None:
        for target in self._targets:
            pid = target["pid"]
            handle = HANDLES.take(pid, target["start"])
            if handle is None:
                self._fate[pid] = "gone"
                continue
            self._handles[pid] = handle
            base = "/proc/%d" % pid
            try:
                if namespaces.frozen(namespaces.cgroups(pid), namespaces.wait_channel(base)):
                    self._fate[pid] = "frozen"
            except OSError:
                self._fate[pid] = "gone"
            self._still_meant(pid)

    def _still_meant(self, pid: int) -> bool:
        if pid in self._fate:
            return False
        device = next(target["device"] for target in self._targets if target["pid"] == pid)
        if device and not self._holds(pid):
            self._fate[pid] = "gone" if ended(self._handles[pid]) else "spared"
            return False
        return True

    def _signal(self, pids: List[int], number: signal.Signals, seconds: float) -> List[int]:
        ready = []
        for pid in pids:
            if pid in self._fate:
                continue
            try:
                signal.pidfd_send_signal(self._handles[pid], number)
                # One that was stopped (Ctrl-Z) hears SIGTERM only when it goes on.
                signal.pidfd_send_signal(self._handles[pid], signal.SIGCONT)
            except PermissionError:
                self._fate[pid] = "refused"
                continue
            except ProcessLookupError:
                pass
            ready.append(pid)
        return processes.wait(self._handles, ready, seconds)

    def _settle(self, word: str) -> None:
        for pid, handle in self._handles.items():
            if pid not in self._fate and ended(handle):
                self._fate[pid] = word

    def _row(self, target: Target) -> Fate:
        fate = self._fate[target["pid"]]
        row: Fate = {
            "pid": target["pid"],
            "start": target["start"],
            "fate": fate,
            "why": WORDS[fate],
        }
        if fate == "left":
            row["stuck"] = stuck_threads(target["pid"])
        return row


def stuck_threads(pid: int) -> List[StuckThread]:
    """Where in the kernel each thread of a process that does not die is."""
    found: List[StuckThread] = []
    for base in _threads(pid):
        try:
            state = namespaces.read_status(base)["State"][0]
        except (OSError, KeyError):
            continue
        if state not in "ZX":
            found.append(
                {
                    "thread": int(os.path.basename(base)),
                    "state": state,
                    "channel": namespaces.wait_channel(base),
                    "stack": namespaces.kernel_stack(base),
                }
            )
    return found


def _threads(pid: int) -> List[str]:
    try:
        return ["/proc/%d/task/%s" % (pid, name) for name in os.listdir("/proc/%d/task" % pid)]
    except OSError:
        return []
