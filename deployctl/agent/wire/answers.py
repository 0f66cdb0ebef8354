"""What operations of the agent give: one type an answer, checked on both sides of the wire."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

from .liveness import LivenessState


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


class Waiting(TypedDict):
    """The process that waits to serve a unit's next release."""

    pid: int
    start: int
    release: str


class Warmed(TypedDict):
    """A process that has imported everything, and its report; `units.warm` describes it."""

    pid: int
    start: int
    told: Dict[str, Any]


class Asleep(TypedDict):
    """A server that sleeps: since when (seconds since 1970), and at which of vLLM's levels."""

    since: float
    level: int


class Sleeper(TypedDict):
    """Whether a server can sleep, and what that takes; `sleeping.look` describes it."""

    able: bool
    asleep: Optional[bool]
    weights: Optional[int]
    memory: int


class Slept(TypedDict):
    """How long it took a server to sleep, or to wake."""

    seconds: float


class Guarded(TypedDict):
    """The status of a server's answers about its sleep; None where none came."""

    without_key: Optional[int]
    with_key: Optional[int]


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
    warm: Optional[Dict[str, Any]]
    plain: Optional[str]
    waits: Optional[Waiting]
    liveness: Optional[LivenessState]
    lost: Optional[str]
    asleep: Optional[Asleep]
    argv: List[str]
    log: str
    kind: str
    cpu: float
    io: Optional[Dict[str, int]]


class Requests(TypedDict):
    """Requests in flight when a server was stopped, and those cut off; None: it does not count."""

    in_flight: Optional[int]
    cut_off: Optional[int]


class UnitStopped(TypedDict):
    """How a unit ended; `units.stop` describes it."""

    was: str
    gone: List[int]
    killed: List[int]
    left: List[Process]
    state: str
    requests: Requests


class LogPart(TypedDict):
    """A part of a unit's log; `offset` is where to go on."""

    text: str
    offset: int
    size: int
    turned: bool


class Listener(TypedDict):
    """Who listens on a port; `network.listener` describes it."""

    port: int
    listening: bool
    addresses: List[str]
    holders: List[Process]
    unknown: Optional[str]
    outgoing: Optional[List[int]]


class HttpAnswer(TypedDict):
    """What an HTTP server answered; `error` says why it did not, and then `status` is None."""

    status: Optional[int]
    body: str
    error: Optional[str]
    seconds: float


class Relayed(TypedDict):
    """Bytes that a relayed connection carried."""

    sent: int
    received: int


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


class Entry(TypedDict):
    """An entry of a directory; `kind` is file, directory, link or other."""

    kind: str
    size: int
    mode: int
    modified: float
    link: Optional[str]


class Listing(TypedDict):
    """The entries of a directory by name."""

    path: str
    exists: bool
    entries: Dict[str, Entry]


class TreeDigest(TypedDict):
    """One SHA-256 over everything below a directory; None where there is none."""

    path: str
    exists: bool
    sha256: Optional[str]
    files: int
    bytes: int


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
    elsewhere: List[str]
    ledger: List[Dict[str, Any]]


class Held(TypedDict):
    """The lock is ours until the agent ends."""

    held: bool


class Recorded(TypedDict):
    """An entry of the ledger is on disk, with this Unix time."""

    recorded: bool
    time: float
