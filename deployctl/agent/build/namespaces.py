"""What a confined command sees of this host: folders are covered, and pieces of them shown again.

mount_namespaces(7): what is mounted here is seen by the command and its children alone.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional

from ..core.interface import AgentError

HOMES = ("/root", "/home", "/run/user")
WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
"""Where everybody may write; each command has its own, in memory."""
MEMORY = "1g"
"""What it may put there: more would be taken from what serves. TMPDIR is on the disk."""
NEWNS, NEWIPC, NEWPID = 0x00020000, 0x08000000, 0x20000000
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18


class View(NamedTuple):
    """Folders that are covered, with the mode of what takes their place, and the real path of
    each folder or file that is shown all the same."""

    covers: Dict[str, int]
    shown: Dict[str, str]


def view(hidden: Iterable[str], shown: Iterable[str]) -> View:
    """What is covered so that homes, `hidden` and temporary folders are out of sight, and so is
    everything else above `shown` that is closed to others. Error `hides` for something to be shown
    that holds one of these."""
    places = {os.path.realpath(path): 0o755 for path in (*HOMES, *hidden)}
    places.update({os.path.realpath(path): 0o1777 for path in WRITABLE})
    wanted = {path: os.path.realpath(path) for path in shown if os.path.exists(path)}
    closed = (_closed(real) for real in wanted.values())
    places = {**dict.fromkeys(filter(None, closed), 0o755), **places}
    places = {p: mode for p, mode in places.items() if os.path.isdir(p) and not within("/usr", p)}
    covers = {
        path: mode
        for path, mode in places.items()
        if not any(path != other and within(path, other) for other in places)
    }
    again: Dict[str, str] = {}
    for path, real in wanted.items():
        if holds_covered(real):
            raise AgentError("hides", f"a build cannot be shown {path}: it holds what is hidden")
        for name in (path, real):
            if any(within(name, cover) for cover in covers):
                again[name] = real
    seen = [name for name in again if os.path.isdir(again[name])]
    inner = [n for n in again if any(n != other and within(n, other) for other in seen)]
    return View(covers, {name: real for name, real in again.items() if name not in inner})


def within(path: str, folder: str) -> bool:
    """Whether a path is this folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def holds_covered(path: str) -> bool:
    """Whether a folder is or holds one that is always covered."""
    return any(within(cover, path) for cover in (*HOMES, *WRITABLE))


def _closed(path: str) -> Optional[str]:
    """The topmost folder above a path that others may not enter."""
    parts = path.split("/")
    for depth in range(2, len(parts)):
        folder = "/".join(parts[:depth])
        with contextlib.suppress(OSError):
            if not os.stat(folder).st_mode & 0o001:
                return folder
    return None


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What the kernel refuses, as error `not-confined`."""
    try:
        yield
    except OSError as error:
        why = f"{error.filename or ''}: {error.strerror}"
        raise AgentError("not-confined", f"this host does not let us confine: {why}") from error


def system_call(name: str, what: str, *arguments: Any) -> None:
    """Call a function of the C library; raises OSError, with `what` in it."""
    try:
        import ctypes
    except ImportError as error:
        raise AgentError("not-confined", f"this Python has no ctypes: {error}") from error
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"{name} {what}")


def leave(flags: int) -> None:
    """Leave these namespaces for new ones, whose mounts no other process sees."""
    system_call("unshare", "namespaces", flags)
    system_call("mount", "private", b"none", b"/", None, _REC | _PRIVATE, None)


def arrange(found: View) -> None:
    """Cover what is covered, then show what is shown; it is held open until it is in place."""
    held = [(path, os.open(real, os.O_PATH)) for path, real in found.shown.items()]
    for path, mode in sorted(found.covers.items()):
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, f"mode={mode:o},size={MEMORY}")
    for path, handle in sorted(held):
        folder = os.path.isdir(f"/proc/self/fd/{handle}")
        os.makedirs(path if folder else os.path.dirname(path), mode=0o755, exist_ok=True)
        if not folder:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        _mount(f"/proc/self/fd/{handle}", path, "", _BIND)
        os.close(handle)


def own_processes() -> None:
    """Show the processes of this PID namespace alone, where that may be done: a container may
    forbid it, and then those outside are seen as any user sees them."""
    leave(NEWNS)
    with contextlib.suppress(OSError):
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    system_call("mount", target, *words, flags, options.encode() or None)
