"""A folder given to another user while a command of its works there, and taken back after it.

What is taken back is root's alone again, so that nothing of that user changes it later: owner, mode
and access lists. No other process may work there meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Iterator, List

from ..core.interface import AgentError

SHOWN = 5
ATTRIBUTES = ("system.posix_acl_access", "system.posix_acl_default", "security.capability")


def give(folder: str, user: int, group: int) -> None:
    """Let a user change a folder. A file with several names stays as it is: one of them may be in
    another environment. It can be replaced, not written to."""
    for path, status in _entries(folder):
        alone = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if stat.S_ISDIR(status.st_mode) or alone:
            os.chown(path, user, group, follow_symlinks=False)


def take_back(folder: str, user: int) -> None:
    """Make everything in a folder ours. Error `unsafe` names what has no place in it, once all is
    ours: set-uid files and files with capabilities, links of the user's that lead out, devices,
    sockets and pipes."""
    wrong: List[str] = []
    root = os.path.realpath(folder)
    for path, status in _entries(folder):
        if status.st_uid != user:
            continue
        why = _objection(path, status, root)
        if why:
            wrong.append(f"{path} {why}")
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            os.chmod(path, stat.S_IMODE(status.st_mode) & 0o755)
            _without_attributes(path)
    if wrong:
        more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise AgentError("unsafe", f"the build left {'; '.join(wrong[:SHOWN])}{more}")


def _objection(path: str, status: os.stat_result, root: str) -> str:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        real = os.path.realpath(path)
        inside = real == root or real.startswith(root + os.sep)
        return "" if inside else f"leads to {real}"
    if stat.S_ISDIR(mode):
        return ""
    if not stat.S_ISREG(mode):
        return "is not a file or folder"
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "is set-uid or set-gid"
    return "has capabilities" if "security.capability" in _attributes(path) else ""


def _attributes(path: str) -> List[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:
        return []  # a file system without them


def _without_attributes(path: str) -> None:
    for name in set(_attributes(path)) & set(ATTRIBUTES):
        with contextlib.suppress(OSError):
            os.removexattr(path, name, follow_symlinks=False)


def _entries(folder: str) -> Iterator["tuple[str, os.stat_result]"]:
    """A folder and everything below it, links unfollowed, each as it is when it is met."""
    yield folder, os.lstat(folder)
    pending = [folder]
    while pending:
        for entry in list(os.scandir(pending.pop())):
            status = entry.stat(follow_symlinks=False)
            yield entry.path, status
            if stat.S_ISDIR(status.st_mode):
                pending.append(entry.path)
