"""A profile's units moved from the older layout (see `layout`), while what serves goes on.

A directory and the link that is left in its old place change places in one step, so that no moment
finds nothing there: a supervisor goes on by its old path, a server's launch line stays true. Each
step can be repeated: the next run finishes one that a crash cut off.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
from contextlib import ExitStack, suppress
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..core import layout
from ..core.atomic_files import write_text

AT_FDCWD, RENAME_EXCHANGE = -100, 2


class Busy(Exception):
    """A run of an older deployctl is at work on a unit; its lock's file is the argument."""


def take_over(root: str, profile: str) -> None:
    """Move what lies in the older layout; the profile's lock is held. Raises `Busy`."""
    home = layout.profile_home(root, profile)
    for unit in layout.older_units(root, profile):
        older = layout.older_home(root, profile, unit)
        with ExitStack() as stack:
            _hold(os.path.join(older, "lock"), stack)
            _merge_ledger(home, older, unit)
            _move(older, layout.unit_home(root, profile, unit))
    for unit in (layout.FRONT, layout.MAIN):
        new = layout.unit_home(root, profile, unit)
        for item in layout.older_items(root, profile, unit):
            _move(os.path.join(home, item), os.path.join(new, item), item in layout.LINKS)


def _hold(path: str, stack: ExitStack) -> None:
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(path) from None


def _move(old: str, new: str, bare: bool = False) -> None:
    """Move a directory and leave a link to it, or (`bare`) a link that nothing refers to. What is
    there already is not replaced."""
    os.makedirs(os.path.dirname(new), mode=0o700, exist_ok=True)
    if os.path.islink(new) and not os.path.exists(new):
        os.unlink(new)  # of a takeover that was cut off
    if os.path.lexists(new):
        return
    if bare:
        os.rename(old, new)
        return
    link = os.path.relpath(new, os.path.dirname(old))
    os.symlink(link, new)
    if _exchange(old, new):
        return
    os.unlink(new)
    try:
        os.rename(old, new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # A mount point, or of an overlay's lower layer: it stays, and is found by a link.
        os.symlink(os.path.relpath(old, os.path.dirname(new)), new)
        return
    os.symlink(link, old)


def _exchange(one: str, other: str) -> bool:
    """Let two paths change places in one step; false where this system cannot."""
    renameat2: Optional[Callable[..., Any]] = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    return bool(renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0)


def _merge_ledger(home: str, older: str, unit: str) -> None:
    """Put a unit's runs into its profile's ledger. What a run of the whole profile did in it stands
    there already."""
    lines = layout.ledger_lines(older)
    if not lines:
        return
    own = layout.ledger_lines(home)
    known = {layout.entry(line).get("run") for line in own}
    added = [_named(line, unit) for line in lines if layout.entry(line).get("run") not in known]
    merged = sorted([*_timed(own), *_timed(added)], key=lambda pair: pair[0])
    text = b"".join(line + b"\n" for _, line in merged).decode("utf-8", "surrogateescape")
    write_text(os.path.join(home, layout.LEDGER), text)
    os.unlink(os.path.join(older, layout.LEDGER))


def _named(line: bytes, unit: str) -> bytes:
    entry = layout.entry(line)
    if entry.get("kind") == "damaged":
        return line
    named: Dict[str, Any] = dict(entry, unit=unit)
    return json.dumps(named, sort_keys=True).encode()


def _timed(lines: List[bytes]) -> List[Tuple[float, bytes]]:
    """Lines with their times; one without has that of the one before it."""
    last = 0.0
    timed: List[Tuple[float, bytes]] = []
    for line in lines:
        time = layout.entry(line).get("time")
        last = float(time) if isinstance(time, (int, float)) else last
        timed.append((last, line))
    return timed
