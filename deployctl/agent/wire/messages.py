"""The conversation itself: JSON objects, one a line.

A controller begins with `Greeting`; the bootstrap answers `Need`, `Refused` or, as the agent, with
`Started`. From then on requests and their `Results` and `Event`s cross as they come.
"""

from __future__ import annotations

from typing import Any, Dict, List, TypedDict, Union

LONGEST_LINE = 64 << 20
"""Bytes of a line; neither side sends a longer one."""


class Greeting(TypedDict):
    """The agent's program by its SHA-256, the host's root ("": the default), and the seconds that
    the agent lives on without a message from the controller.
    """

    hash: str
    root: str
    silence: float


class Need(TypedDict):
    """The program with this SHA-256 is not here yet; it is answered with `Code`."""

    need: str


class Code(TypedDict):
    """The agent's program, base64."""

    code: str


class Refused(TypedDict):
    """No agent can run: `python` (it is too old), `root` (it cannot be written), `owner` (it is
    not ours alone), and why."""

    refused: str
    why: str


class About(TypedDict):
    """Who and where an agent is."""

    python: str
    executable: str
    pid: int
    uid: int
    home: str
    root: str
    hostname: str
    machine: str
    boot_id: str


class Started(TypedDict):
    """The agent's first word."""

    ready: About


class Operation(TypedDict):
    """One operation by its full name, such as `units.state`, with its keyword arguments."""

    op: str
    args: Dict[str, Any]


class Request(TypedDict):
    """Operations to be carried out in turn; their answers come together."""

    id: int
    calls: List[Operation]


class Cancel(TypedDict):
    """Give the request of this number up."""

    cancel: int


class Feed(TypedDict):
    """Input for the operation that runs in this request."""

    feed: int
    data: Any


class Ping(TypedDict):
    """Asks for a `Pong` of the same number: a sign of life."""

    ping: int


class Pong(TypedDict):
    """Answers a `Ping`."""

    pong: int


class Event(TypedDict):
    """What an operation reports while it runs; an empty one says that it is still at work."""

    id: int
    call: int
    event: Dict[str, Any]


class Value(TypedDict):
    """What an operation gave."""

    value: Any


class Fault(TypedDict):
    """Why an operation gave nothing: one word to branch on, a sentence, and what more is known."""

    kind: str
    message: str
    detail: Any


class Failure(TypedDict):
    """An operation that gave nothing."""

    error: Fault


class Results(TypedDict):
    """The answers to a request, one an operation."""

    id: int
    results: List[Union[Value, Failure]]


FROM_AGENT: Dict[str, Any] = {
    "need": Need,
    "refused": Refused,
    "ready": Started,
    "pong": Pong,
    "event": Event,
    "results": Results,
}
"""What an agent sends, by the key that names it."""
