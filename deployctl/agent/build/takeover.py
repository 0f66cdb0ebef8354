"""A folder given to another user while a command of its works there, and taken back after it.

What is taken back is root's alone again, so that nothing of that user changes it later: owner, mode
and access lists. No other process may work there meanwhile.
"""

from __future__ import annotations

import os
import stat
from typing import Iterator, List, NamedTuple, Optional, Set

from ..core.interface import AgentError

SHOWN = 5
CAPABILITIES = "security.capability"
ATTRIBUTES = {"system.posix_acl_access", "system.posix_acl_default", CAPABILITIES}
OURS = (0, 0)


class Entry(NamedTuple):
    """Something in a folder: its path, and its name below the descriptor `place`."""

    path: str
    name: str
    place: Optional[int]
    status: os.stat_result


def give(folder: str, user: int, group: int) -> None:
    """Let a user change a folder. A file with several names stays as it is: one of them may be in
    another environment. It can be replaced, not written to."""
    for entry in _entries(folder):
        mode, alone = entry.status.st_mode, entry.status.st_nlink == 1
        if stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and alone):
            os.chown(entry.name, user, group, dir_fd=entry.place, follow_symlinks=False)


def take_back(folder: str, user: int) -> None:
    """Make everything in a folder ours. Error `unsafe` names what has no place in it, once all is
    ours: set-uid files and files with capabilities, links of the user's that lead out, devices,
    sockets and pipes."""
    try:
        wrong = _taken(folder, user)
    except (OSError, RecursionError) as error:
        # Deeper than a path may be long, or than there are descriptors.
        raise AgentError("unsafe", f"what the build left cannot be taken over: {error}") from error
    if wrong:
        more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise AgentError("unsafe", f"the build left {'; '.join(wrong[:SHOWN])}{more}")


def _taken(folder: str, user: int) -> List[str]:
    wrong: List[str] = []
    root = os.path.realpath(folder)
    for entry in _entries(folder):
        if entry.status.st_uid != user:
            continue
        why = _objection(entry, root)
        if stat.S_ISDIR(entry.status.st_mode) or stat.S_ISREG(entry.status.st_mode):
            why = _made_plain(entry) or why
        else:
            os.chown(entry.name, *OURS, dir_fd=entry.place, follow_symlinks=False)
        if why:
            wrong.append(f"{entry.path} {why}")
    return wrong


def _objection(entry: Entry, root: str) -> str:
    mode = entry.status.st_mode
    if stat.S_ISLNK(mode):
        real = os.path.realpath(entry.path)
        return "" if real == root or real.startswith(root + os.sep) else f"leads to {real}"
    if stat.S_ISDIR(mode):
        return ""
    if not stat.S_ISREG(mode):
        return "is not a file or folder"
    return "is set-uid or set-gid" if mode & (stat.S_ISUID | stat.S_ISGID) else ""


def _made_plain(entry: Entry) -> str:
    """Make it ours, and ours alone to write to, by mode and by lists; says what it was more."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(entry.name, flags, dir_fd=entry.place)
    try:
        found = _attributes(handle)
        os.fchown(handle, *OURS)
        os.fchmod(handle, stat.S_IMODE(entry.status.st_mode) & 0o755)
        # The change of its owner has removed capabilities.
        for name in _attributes(handle):
            os.removexattr(handle, name)
        return "has capabilities" if CAPABILITIES in found else ""
    finally:
        os.close(handle)


def _attributes(handle: int) -> Set[str]:
    try:
        return ATTRIBUTES & set(os.listxattr(handle))
    except OSError:
        return set()  # a file system without them


def _entries(folder: str) -> Iterator[Entry]:
    """A folder and everything below it, links unfollowed, each by its own folder's descriptor: no
    name above it can be made to lead elsewhere meanwhile."""
    yield Entry(folder, folder, None, os.lstat(folder))
    for path, folders, files, place in os.fwalk(folder):
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=place, follow_symlinks=False)
            yield Entry(os.path.join(path, name), name, place, status)
