"""What the agent says about what it sends to other hosts and receives from them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class Described(TypedDict):
    """A folder that is to be sent, and the note in which its manifest is kept for the sender."""

    place: str
    manifest: Dict[str, Any]
    bytes: int
    note: str


class Forgotten(TypedDict):
    """A folder whose checksums are to be made again."""

    place: str


class Prepared(TypedDict):
    """A folder that is to be received: the pieces that are missing, and their bytes."""

    place: str
    missing: List[int]
    bytes: int


class Received(TypedDict):
    """The pieces that are missing yet, and how often some came damaged: [number, times]."""

    missing: List[int]
    damaged: List[List[int]]


class Listening(TypedDict):
    """The port on which a folder is being received."""

    port: int


class Finished(TypedDict):
    """A folder that has come whole."""

    place: str
    files: int
    bytes: int


class Unpacked(TypedDict):
    """What a parcel brought: the Python to create the environment with, keys of built wheels."""

    python: str
    kept: List[str]
    place: str


class Reach(TypedDict):
    """Whether a requirement resolves, whether any index answers (None: that is not known), and why
    it does not resolve."""

    resolves: Optional[bool]
    answers: Optional[bool]
    why: str
