"""A container's configuration on its node, with the files that it includes."""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, List, Optional

from ..wire.gpus import ContainerConf

PVE_CONF = "/etc/pve/lxc/%s.conf"
SHIPPED = "/usr/share/lxc/config/"
"""LXC's own configurations: what they say of devices is known."""
LONGEST = 1 << 20
MOST = 40
_INCLUDE = re.compile(r"^\s*lxc\.include\s*[:=]\s*(\S.*?)\s*$", re.MULTILINE)


def read(container: str, lxc_path: str) -> Optional[ContainerConf]:
    """`path` and `text` of a container's configuration, and the text of each file that it
    `includes` by path, None where it cannot be read; a folder is read as LXC does, *.conf."""
    for path in (PVE_CONF % container, os.path.join(lxc_path, container, "config")):
        text = _text(path)
        if text is not None:
            return {"path": path, "text": text, "includes": _includes(text)}
    return None


def cgroup_version() -> Optional[int]:
    """The version of control groups that keeps devices here: 1, 2, or None where neither does."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return 2
    return 1 if os.path.isdir("/sys/fs/cgroup/devices") else None


def _includes(text: str) -> Dict[str, Optional[str]]:
    found: Dict[str, Optional[str]] = {}
    waiting: List[str] = _INCLUDE.findall(text)
    while waiting and len(found) < MOST:
        path = waiting.pop(0)
        if path in found or path.startswith(SHIPPED):
            continue
        found[path] = _folder(path) if os.path.isdir(path) else _text(path)
        waiting += _INCLUDE.findall(found[path] or "")
    return found


def _folder(path: str) -> Optional[str]:
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".conf"))[:MOST]
    except OSError:
        return None
    texts = [_text(os.path.join(path, name)) for name in names]
    return None if None in texts else "\n".join(text or "" for text in texts)


def _text(path: str) -> Optional[str]:
    """A regular file's text; a FIFO would keep us waiting for its writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read(LONGEST + 1)
    return None if len(data) > LONGEST else data.decode("utf-8", "replace")
