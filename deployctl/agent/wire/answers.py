"""What operations of the agent give: one type an answer, checked on both sides of the wire."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class Process(TypedDict):
    """A process as a person recognises it; `start` in clock ticks since boot."""

    pid: int
    start: int
    started: float
    comm: str
    state: str
    parent: int
    session: int
    command: str


class UnitIdentity(TypedDict):
    """What is known of every unit, whether it was ever started or not."""

    state: str
    pid: Optional[int]
    start: Optional[int]
    release: Optional[str]
    members: List[Process]


class UnitState(UnitIdentity, total=False):
    """A unit that was started here has the rest, too; `units.state` describes it."""

    supervised: bool
    kept: bool
    proven: Optional[Dict[str, Any]]
    loaded: Optional[Dict[str, Optional[str]]]
    started: Optional[float]
    ended: Optional[float]
    rc: Optional[int]
    error: Optional[str]
    restarts: int
    argv: List[str]
    log: str
    kind: str
    cpu: float
    io: Optional[Dict[str, int]]


class LogPart(TypedDict):
    """A part of a unit's log; `offset` is where to go on."""

    text: str
    offset: int
    size: int
    turned: bool


class JobLogPart(TypedDict):
    """A part of a job's log; `offset` is where to go on."""

    text: str
    offset: int
    size: int


class Listener(TypedDict):
    """Who listens on a port; `network.listener` describes it."""

    port: int
    listening: bool
    addresses: List[str]
    holders: List[Process]
    unknown: Optional[str]
    outgoing: Optional[List[int]]


class FileContent(TypedDict):
    """A whole file; all but `path` and `exists` are None where there is none."""

    path: str
    exists: bool
    text: Optional[str]
    base64: Optional[str]
    sha256: Optional[str]
    mode: Optional[int]
    size: Optional[int]
    link: Optional[str]


class FileWritten(TypedDict):
    """A file that was replaced as a whole."""

    path: str
    sha256: str
    size: int
    mode: int


class Disk(TypedDict):
    """Bytes of a file system."""

    path: str
    free: int
    total: int


class Removed(TypedDict):
    """Whether there was anything to remove."""

    path: str
    removed: bool


class Current(TypedDict):
    """Which releases the links of a profile name."""

    current: Optional[str]
    previous: Optional[str]


class Releases(Current):
    """Everything a plan must know about a profile's releases; `releases.state` describes it."""

    releases: Dict[str, Optional[Dict[str, Any]]]
    environments: Dict[str, Optional[Dict[str, Any]]]
    broken: Dict[str, List[str]]
    ledger: List[Dict[str, Any]]


class Held(TypedDict):
    """The lock is ours until the agent ends."""

    held: bool


class Recorded(TypedDict):
    """An entry of the ledger is on disk, with this Unix time."""

    recorded: bool
    time: float


RESULTS: Dict[str, Any] = {
    "environment.builders": List[Process],
    "files.disk": Disk,
    "files.read": FileContent,
    "files.remove_tree": Removed,
    "files.write": FileWritten,
    "jobs.log": JobLogPart,
    "network.listener": Listener,
    "processes.describe": Process,
    "releases.ledger": List[Dict[str, Any]],
    "releases.lock": Held,
    "releases.profiles": List[str],
    "releases.record": Recorded,
    "releases.state": Releases,
    "releases.switch": Current,
    "units.keep": UnitState,
    "units.listing": Dict[str, UnitState],
    "units.log": LogPart,
    "units.start": UnitState,
    "units.state": UnitState,
}
"""The types of answers by operation; one that is not here gives JSON of any shape."""
