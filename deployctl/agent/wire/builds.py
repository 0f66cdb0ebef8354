"""What the agent says about building: sources, environments, wheels, a host's tools."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict, Union

Programs = TypedDict(
    "Programs",
    {
        "git": Optional[str],
        "cc": Optional[str],
        "gcc": Optional[str],
        "clang": Optional[str],
        "g++": Optional[str],
        "cmake": Optional[str],
        "ninja": Optional[str],
        "ccache": Optional[str],
        "sccache": Optional[str],
        "nvcc": Optional[str],
    },
)
"""Programs of a build by name: their path, None where there is none."""


class Tools(Programs):
    """What a host offers for building; `environment.tools` describes it."""

    uv: Optional[str]
    uv_version: Optional[str]
    pythons: Dict[str, str]
    cpus: int
    memory_available: Optional[int]
    machine: str
    libc: str
    libraries: Dict[str, Optional[bool]]
    capabilities: Optional[List[str]]
    nvcc_version: Optional[str]


class BuildUser(TypedDict):
    """To whom a build is confined, None where it runs as the agent's own user, and why."""

    user: Optional[str]
    why: str
    agent: str


class Confined(TypedDict):
    """The argv after the agent's own, and the variables, by which another user runs a program."""

    argv: List[str]
    env: Dict[str, str]


class ResolvedSource(TypedDict):
    """What a wanted source is right now; `place` is a checkout's folder, None for any other."""

    kind: str
    identity: str
    commit: Optional[str]
    ref: Optional[str]
    dirty: bool
    place: Optional[str]


class SourceFacts(TypedDict):
    """What the choice of a strategy depends on; `environment.source_facts` describes it."""

    merge_base: Optional[str]
    changed: Optional[List[str]]
    tag: Optional[str]
    tag_commit: Optional[str]


class SameTree(TypedDict):
    """A commit's Python files beside those installed; `environment.same_tree` describes it."""

    compared: int
    different: List[str]
    left_out: List[str]


class FirstFound(TypedDict):
    """The first URL that is there, and the status or error of each that was tried."""

    url: Optional[str]
    tried: Dict[str, Union[int, str]]


class Distribution(TypedDict):
    """An installed distribution; `direct_url` is its direct_url.json (PEP 610), of any shape."""

    name: str
    version: str
    dist_info: str
    installer: Optional[str]
    direct_url: Any
    needs: List[str]
    problems: int


class Inherited(TypedDict):
    """A flaw that the environment's base has as well, by distribution."""

    name: str
    text: str


class Installed(TypedDict):
    """What an environment holds; `environment.complete` describes it."""

    site_packages: str
    providers: List[Distribution]
    distributions: List[Distribution]
    entries: int
    problems: List[str]
    problem_count: int
    inherited: List[Inherited]
    extensions: List[str]
    deep: bool


class Torch(TypedDict):
    """torch as it imports: its version, that of its CUDA, and the architectures it has code for."""

    version: str
    cuda: Optional[str]
    architectures: List[str]


class Imports(TypedDict):
    """What importing a package has shown; an extension's error is None where it imports."""

    version: Optional[str]
    file: Optional[str]
    commit: Optional[str]
    torch: Optional[Torch]
    torch_error: Optional[str]
    extensions: Dict[str, Optional[str]]


class KeptWheelFile(TypedDict):
    """A built wheel; `environment.wheels` describes it."""

    key: str
    path: str
    wheel: str
    sha256: str
    size: int
    built: float
    used: float
    whole: bool


class KeptWheel(KeptWheelFile, total=False):
    """The same, with what made it; more of that may stand beside."""

    commit: str


class PrunedWheels(TypedDict):
    """The keys of the wheels that were removed, and the bytes of the rest."""

    removed: List[str]
    size: int
