"""Where a process belongs: its PID namespaces, its container, its user, whether it is frozen."""

from __future__ import annotations

import fcntl
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from ..wire.gpus import Container

NS_GET_PARENT = 0xB702
"""ioctl_ns(2)"""

CONTAINER_CGROUPS = (
    ("lxc", re.compile(r"/lxc\.payload[./]([^/]+)")),
    ("lxc", re.compile(r"/lxc/([^/]+)")),
    ("docker", re.compile(r"/docker[/-]([0-9a-f]{12})[0-9a-f]*")),
    ("kubernetes", re.compile(r"/kubepods.*[/-]([0-9a-f]{12})[0-9a-f]{52}")),
    ("podman", re.compile(r"/libpod-([0-9a-f]{12})[0-9a-f]*")),
    ("nspawn", re.compile(r"/machine-([^/]+)\.scope")),
)
"""How container managers name a container's control group: Proxmox `lxc/129`, LXC's own
`lxc.payload.NAME`, Docker, Kubernetes with containerd or CRI-O, Podman, systemd-nspawn."""

FROZEN_CHANNELS = ("refrigerator", "freezer")
"""Parts of the kernel's wait channel of a frozen task: __refrigerator, do_freezer_trap."""


def namespace(pid: "int | str") -> int:
    """Inode number of a process's PID namespace: the same from wherever one looks."""
    return os.stat("/proc/%s/ns/pid" % pid).st_ino


def namespaces(pid: int) -> List[int]:
    """A process's PID namespaces, innermost first, up to the one of this agent's /proc."""
    found: List[int] = []
    fd = os.open("/proc/%d/ns/pid" % pid, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while True:
            found.append(os.fstat(fd).st_ino)
            try:
                above = fcntl.ioctl(fd, NS_GET_PARENT)
            except OSError:
                # EPERM: the parent lies outside what this agent may see.
                return found
            os.close(fd)
            fd = above
    finally:
        os.close(fd)


def read_status(base: str) -> Dict[str, str]:
    """The fields of a process's or thread's `status` file."""
    with open(base + "/status", encoding="utf-8", errors="replace") as file:
        pairs = (line.rstrip("\n").partition(":") for line in file)
        return {key: value.strip() for key, _, value in pairs}


def cgroups(pid: int) -> List[Tuple[str, str]]:
    """(controllers, path) of every hierarchy; version 2 has no controllers here."""
    with open("/proc/%d/cgroup" % pid, encoding="utf-8", errors="replace") as file:
        parts = (line.rstrip("\n").split(":", 2) for line in file)
        return [(part[1], part[2]) for part in parts if len(part) == 3]


def container(paths: List[Tuple[str, str]]) -> Optional[Container]:
    """The container that the control groups name, as kind and name; None for none."""
    for _, path in paths:
        for kind, pattern in CONTAINER_CGROUPS:
            found = pattern.search(path)
            if found:
                return {"kind": kind, "name": found.group(1)}
    return None


def service(paths: List[Tuple[str, str]]) -> Optional[str]:
    """The systemd service that the control groups name: it may restart a process."""
    for _, path in paths:
        found = re.search(r"/([^/]+\.service)$", path)
        if found:
            return found.group(1)
    return None


def contained() -> Optional[str]:
    """The kind of container that this agent runs in; None on a machine of its own.

    Container managers say it to the first process: `container=lxc` in its environment.
    """
    try:
        with open("/proc/1/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"container="):
                    return entry[len(b"container=") :].decode("utf-8", "replace")
    except OSError:
        pass
    for sign, kind in (("/run/systemd/container", ""), ("/.dockerenv", "docker")):
        if os.path.exists(sign):
            return kind or "a container"
    place = container(cgroups(1))
    return None if place is None else place["kind"]


def frozen(paths: List[Tuple[str, str]], channel: Optional[str]) -> bool:
    """Whether the process is stopped by the freezer: it takes no signal until it is thawed."""
    if channel and any(word in channel for word in FROZEN_CHANNELS):
        return True
    return any(_group_is_frozen(controllers, path) for controllers, path in paths)


def _group_is_frozen(controllers: str, path: str) -> bool:
    for mount, file, sign in (
        ("freezer", "freezer.state", "FROZEN"),
        ("unified", "cgroup.events", "frozen 1"),
        ("", "cgroup.events", "frozen 1"),
    ):
        if (mount == "freezer") != ("freezer" in controllers.split(",")):
            continue
        name = os.path.join("/sys/fs/cgroup", mount, path.lstrip("/"), file)
        try:
            with open(name, encoding="ascii") as opened:
                if sign in opened.read():
                    return True
        except OSError:
            continue
    return False


def wait_channel(base: str) -> Optional[str]:
    """The kernel function that a process or thread waits in; None while it runs or untold."""
    try:
        with open(base + "/wchan", encoding="ascii") as file:
            name = file.read().strip()
    except OSError:
        return None
    return name if name not in ("", "0") else None


def kernel_stack(base: str, depth: int = 4) -> List[str]:
    """The innermost kernel functions of a process or thread; empty without root's rights."""
    try:
        with open(base + "/stack", encoding="ascii") as file:
            lines = file.read().splitlines()[:depth]
    except OSError:
        return []
    return [line.split("] ", 1)[-1].split("+", 1)[0] for line in lines]


def user_name(uid: int) -> str:
    """The user's name from /etc/passwd alone: a directory service may not answer."""
    try:
        with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(":")
                if len(fields) > 2 and fields[2] == str(uid):
                    return fields[0]
    except OSError:
        pass
    return str(uid)


def hidden_processes() -> Optional[str]:
    """Why other users' processes may be invisible here (proc's hidepid); None where all show."""
    if os.geteuid() == 0:
        return None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            options: Any = right.split()[-1] if right.startswith("proc ") else ""
            if left.split()[4] == "/proc" and re.search(r"hidepid=(?!0|off)\w+", options):
                return "/proc is mounted with hidepid: other users' processes do not show"
    return None
