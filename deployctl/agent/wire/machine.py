"""What a machine is like, whatever is deployed on it, and what it reaches."""

from __future__ import annotations

from typing import Optional, TypedDict


class Folder(TypedDict):
    """A directory: whether files can be written and programs run there, and what is left."""

    path: str
    writable: bool
    read_only: bool
    noexec: bool
    free: int
    inodes_free: Optional[int]


class Machine(TypedDict):
    """A host by its own agent. `time` is its clock (seconds since 1970); `systemd` says why no
    system unit can be made; `linger` and `kills_sessions` are logind's, None where unknown."""

    time: float
    user: str
    uid: int
    root: Folder
    tmp: Folder
    systemd: Optional[str]
    linger: Optional[bool]
    kills_sessions: Optional[bool]
    open_files: Optional[int]


class Outside(TypedDict):
    """Whether something outside answers a host. `stage` is where it ends: ok, name, connect,
    proxy, certificate, answer or program; `proxy` is what goes between, without credentials."""

    url: str
    stage: str
    why: str
    proxy: Optional[str]
