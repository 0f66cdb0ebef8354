"""What `doctor` asks of a machine as a whole: clock, folders, init, limits."""

from __future__ import annotations

import glob
import os
import re
import resource
import tempfile
import time
from typing import Optional

from ..core.interface import Call
from ..core.regular_files import read_text
from ..wire.machine import Folder, Machine
from .namespaces import user_name

SYSTEMD = "/run/systemd/system"
LOGIND = ("/usr/lib/systemd/logind.conf", "/etc/systemd/logind.conf")
_KILLS = re.compile(r"^\s*KillUserProcesses\s*=\s*(\w+)", re.M)


def look(call: Call) -> Machine:
    """The machine as it is now."""
    uid = os.geteuid()
    user = user_name(uid)
    runs = os.path.isdir(SYSTEMD)
    return {
        "time": time.time(),
        "user": user,
        "uid": uid,
        "root": folder(call.root),
        "tmp": folder(tempfile.gettempdir()),
        "systemd": _systemd(runs, uid),
        "linger": os.path.exists(f"/var/lib/systemd/linger/{user}") if runs else None,
        "kills_sessions": _kills() if runs else None,
        "open_files": _limit(resource.RLIMIT_NOFILE),
    }


def folder(path: str) -> Folder:
    """A directory and the file system that it is on."""
    found = os.statvfs(path)
    return {
        "path": path,
        "writable": _writable(path),
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        "noexec": bool(found.f_flag & os.ST_NOEXEC),
        "free": found.f_bavail * found.f_frsize,
        # Some file systems (btrfs) do not count inodes.
        "inodes_free": found.f_favail if found.f_files else None,
    }


def _writable(path: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
        return True
    except OSError:
        return False


def _systemd(runs: bool, uid: int) -> Optional[str]:
    if not runs:
        return "systemd is not this machine's init"
    return None if uid == 0 else "not root"


def _kills() -> bool:
    """Whether logind ends the processes of a login that ends; the last word counts."""
    drop_ins = sorted(glob.glob("/etc/systemd/logind.conf.d/*.conf"))
    found = [_KILLS.findall(read_text(path) or "") for path in (*LOGIND, *drop_ins)]
    words = [word for each in found for word in each]
    return bool(words) and words[-1].lower() in ("yes", "true", "on", "1")


def _limit(which: int) -> Optional[int]:
    hard = resource.getrlimit(which)[1]
    return None if hard == resource.RLIM_INFINITY else hard


OPERATIONS = (look,)
