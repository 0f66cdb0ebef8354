"""What is known of a server that somebody started by hand."""

from __future__ import annotations

from typing import Dict, List, Optional, TypedDict


class RunAs(TypedDict):
    """As whom a process runs, and its umask."""

    uid: int
    gid: int
    groups: List[int]
    umask: int


class Package(TypedDict):
    """What a server's own Python environment provides: `name` and `version` of the distribution
    that has the package vllm, the `commit` of one built from git and the `url` it came from, the
    checkout (`path`) of one installed from a folder; the versions of other distributions by name.
    """

    site: str
    python: str
    name: Optional[str]
    version: Optional[str]
    url: Optional[str]
    commit: Optional[str]
    path: Optional[str]
    others: Dict[str, str]


class ByHand(TypedDict):
    """A process without a supervisor of ours. `argv` and `env` are without secrets: an argument's
    value is then `***`, and `secrets` has the names of variables. `members` are the PIDs of all its
    processes. `unknown` says why nothing more
    is known of it."""

    pid: int
    start: int
    started: float
    parent: int
    members: List[int]
    comm: str
    argv: List[str]
    env: Dict[str, str]
    secrets: List[str]
    cwd: str
    user: str
    run_as: RunAs
    log: Optional[str]
    service: Optional[str]
    container: Optional[str]
    environment: Optional[str]
    package: Optional[Package]
    unknown: str
