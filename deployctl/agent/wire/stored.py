"""What the agent says about what it stores: models, marks of releases, what may be removed."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class ConfigFile(TypedDict):
    """A model's config.json; `mode` and `link` are None where it came from a hub."""

    text: str
    sha256: str
    mode: Optional[int]
    link: Optional[str]


class HubFile(TypedDict):
    """A file of a repository on a hub; a small one has no SHA-256 there."""

    name: str
    size: Optional[int]
    sha256: Optional[str]


class HubRefusal(TypedDict):
    """Why a hub does not give what is asked: one word, and a sentence."""

    kind: str
    message: str


class Model(TypedDict):
    """What lies in a model's folder, and what a hub says about it; `models.survey` and
    `hub.survey` describe it."""

    place: str
    exists: bool
    files: Dict[str, int]
    bytes: int
    config: Optional[ConfigFile]
    damaged: Dict[str, str]
    mask_tokens: Optional[List[int]]
    tensors: Optional[Dict[str, List[int]]]
    commit: Optional[str]
    remote: Optional[List[HubFile]]
    error: Optional[HubRefusal]


class ReadAhead(TypedDict):
    """Weights in bytes: all of them, those that were read, and those that lay in memory before;
    `skipped` says why not all were read."""

    bytes: int
    read: int
    resident: int
    seconds: float
    skipped: Optional[str]


class View(TypedDict):
    """A release's view of its drafter: links by name, those that lead nowhere, its own config."""

    place: str
    links: Dict[str, str]
    broken: List[str]
    config: Optional[ConfigFile]


class Directory(TypedDict):
    """A release's directory."""

    directory: str


class Written(TypedDict):
    """A file that was written."""

    path: str


class SealBroken(TypedDict):
    """Whether there was a seal to break."""

    broken: bool


class LogKept(TypedDict):
    """Whether a server's log was copied to its release."""

    kept: bool


class KeptLog(TypedDict):
    """The end of a release's kept log, and the bytes of the whole; no text where none is kept."""

    text: Optional[str]
    size: int


class StoredRelease(TypedDict):
    """What a release refers to; times are Unix times, None before they came."""

    sealed: Optional[float]
    prepared: Optional[float]
    environment: Optional[str]
    models: List[str]
    mentions: List[str]
    bytes: int


class StoredUnit(TypedDict):
    """A unit's releases, and which of them are in use."""

    current: Optional[str]
    previous: Optional[str]
    running: Optional[str]
    releases: Dict[str, StoredRelease]


class Stored(TypedDict):
    """Bytes of an environment, model or wheel."""

    bytes: int


class StoredJob(Stored):
    """A job, with its state and the label that it was given."""

    state: str
    label: Dict[str, Any]


class Inventory(TypedDict):
    """All that is stored on a host; `garbage.inventory` describes it."""

    profiles: Dict[str, Dict[str, StoredUnit]]
    caches: Dict[str, Stored]
    compiled: Dict[str, Stored]
    environments: Dict[str, Stored]
    jobs: Dict[str, StoredJob]
    models: Dict[str, Stored]
    routers: Dict[str, Stored]
    programs: List[str]
    shipping: Dict[str, Stored]
    wheels: Dict[str, Stored]


class Collected(TypedDict):
    """The name of what was removed."""

    removed: str
