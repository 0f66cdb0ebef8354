"""Processes of vLLM by their names, as data: which part of a server a process is.

Engine cores and workers set their title: the command line is then nothing but `VLLM::EngineCore`,
and `comm` its first 15 characters. The prefix is VLLM_PROCESS_NAME_PREFIX, `VLLM` by default.
vllm-omni adds `StageEngineCoreProc`; a suffix such as `_DP0` or `_TP0` names the rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal

Part = Literal["server", "engine", "ray-worker", "ray-node", "helper"]

LOOK_FOR = (r"(?i)vllm", r"^ray::", r"raylet")
"""Patterns for a first sieve, over `comm` and the command line; `part` is the judgement."""

COMM_LENGTH = 15

TITLES = (
    "APIServer",
    "DPCoordinator",
    "EngineCore",
    "LLMEngine",
    "StageEngineCoreProc",
    "StageWorker",
    "Worker",
)
_TITLE = re.compile(rf"[\w.-]+::({'|'.join(TITLES)})\w*")
_RAY_WORKER = re.compile(
    r"ray::(RayWorkerWrapper|RayWorkerProc|RayDistributed\w*|\w*EngineCore\w*)"
)
_MODULE = re.compile(r"vllm(_omni)?\.(entrypoints\.)?(?P<name>.*)")
_SCRIPTS = ("vllm", "vllm-omni")
LAUNCHED = ["launcher.py", "wait"]
"""Of the command line of a server that had waited for its turn."""
_HELPER = re.compile(r"multiprocessing\.(resource_tracker|spawn|forkserver)")
_PYTHON = re.compile(r"python[\d.]*(t|d)?")


def part(comm: str, command: Sequence[str]) -> Part | None:
    """Which part of a vLLM server a process is; None for anything else.

    A shell whose arguments merely mention `vllm serve` is not one.
    """
    title = command[0] if len(command) == 1 else ""
    if _TITLE.fullmatch(title.strip()) or comm.startswith("VLLM::") or _cut_title(comm):
        return "engine"
    if _RAY_WORKER.match(title) or _RAY_WORKER.match(comm):
        return "ray-worker"
    if comm in ("raylet", "gcs_server"):
        return "ray-node"
    if not command:
        return "server" if comm == "vllm" else None
    if comm == "vllm" and [PurePath(word).name for word in command[1:3]] == LAUNCHED:
        return "server"
    return _program(command)


def _cut_title(comm: str) -> bool:
    """A title under another prefix, of which the kernel keeps only 15 characters."""
    prefix, colons, name = comm.partition("::")
    if not prefix or not colons or len(comm) != COMM_LENGTH or len(name) < 3:
        return False
    return any(known.startswith(name) or name.startswith(known) for known in TITLES)


def _program(command: Sequence[str]) -> Part | None:
    name = PurePath(command[0]).name
    if name in _SCRIPTS:
        return _server(command[1:])
    if not _PYTHON.fullmatch(name):
        return None
    rest = list(command[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-m":
            return _module(rest)
        if option == "-c":
            return "helper" if rest and _HELPER.search(rest[0]) else None
        if option in ("-W", "-X") and rest:
            rest.pop(0)
    if rest and PurePath(rest[0]).name in _SCRIPTS:
        return _server(rest[1:])
    return None


def _module(rest: Sequence[str]) -> Part | None:
    found = _MODULE.fullmatch(rest[0]) if rest else None
    if found is None:
        return None
    if found["name"].endswith("api_server"):
        return "server"
    return _server(rest[1:]) if found["name"].startswith("cli") else None


def _server(arguments: Sequence[str]) -> Part | None:
    """`vllm serve` serves; `vllm bench` and `vllm chat` only ask."""
    return "server" if arguments and arguments[0] == "serve" else None
