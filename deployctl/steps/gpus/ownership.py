"""Whose a process is, and which processes a scope stops. Pure; nothing is stopped without proof.

ours: our unit, below our release path, or a vLLM process inside the profile's container ·
system: display, monitoring and driver services · foreign: anything else · unknown: not readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from deployctl.config.clean import Scope
from deployctl.steps.gpus.holders import Process, pid_in

Word = Literal["ours", "foreign", "system", "unknown"]
Proof = Literal["record", "title", "none"]

SYSTEM = (
    "Xorg",
    "Xwayland",
    "X",
    "dcgm",
    "dcgm-exporter",
    "dcgmi",
    "datadog-agent",
    "gnome-shell",
    "netdata",
    "node_exporter",
    "nv-fabricmanager",
    "nv-hostengine",
    "nvidia-fabricmanager",
    "nvidia-persistenced",
    "nvidia-smi",
    "nvidia_gpu_exporter",
    "nvidia_gpu_prometheus_exporter",
    "nvitop",
    "nvtop",
    "telegraf",
    "zabbix_agentd",
)
"""Names that are never stopped; a profile adds its own with `clean.system`."""

COMM_LENGTH = 15


@dataclass(frozen=True)
class Mine:
    """What is ours. `name` is the unit's, as marks have it; `unit` holds (pid, start) as the host
    numbers them; `environments` and `jobs` are those of its releases; `namespace` is the host's
    PID namespace, `container` whether it is a container behind a node; `gpus` the profile's GPUs by
    UUID."""

    name: str
    unit: frozenset[tuple[int, int]] = frozenset()
    environments: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    namespace: int = 0
    container: bool = False
    gpus: frozenset[str] = frozenset()
    system: tuple[str, ...] = ()
    waits: tuple[int, int] | None = None
    """The process that waits to serve the next release, as `unit` has it."""


@dataclass(frozen=True)
class Verdict:
    """Whose a process is, and what shows it. `proof` is what tie there is to us: `record` holds
    whatever it does, `title` only as long as it holds one of the profile's GPUs."""

    process: Process
    word: Word
    why: str
    proof: Proof = "none"


@dataclass(frozen=True)
class Selection:
    """Which processes a scope stops, in order, and which it would but cannot."""

    stop: tuple[Verdict, ...] = ()
    frozen: tuple[Verdict, ...] = ()
    spared: tuple[Verdict, ...] = ()
    """Holders of the profile's GPUs that stay."""


def judge(processes: Sequence[Process], mine: Mine) -> list[Verdict]:
    """A verdict for every process: first each by itself, then servers as a whole, then the
    children of what is ours."""
    verdicts = {process.pid: _by_itself(process, mine) for process in processes}
    for server in _servers(processes):
        _judge_server(server, verdicts, mine)
    _spread(verdicts)
    return list(verdicts.values())


def _by_itself(process: Process, mine: Mine) -> Verdict:
    if process.own:
        return Verdict(process, "system", "it is deployctl's own agent")
    if process.zombie:
        return Verdict(process, "foreign", f"a zombie of PID {process.parent}: it holds nothing")
    service = system_name(process, mine.system)
    if service:
        return Verdict(process, "system", f"{service} is a system service")
    numbered = (pid_in(process, mine.namespace), process.start)
    if numbered == mine.waits:
        return Verdict(process, "system", "it waits to serve this profile's next release")
    if numbered in mine.unit:
        return Verdict(process, "ours", "it belongs to this profile's unit", "record")
    used = process.profiles()
    if used and mine.name not in used:
        return Verdict(process, "foreign", f"it belongs to profile {min(used)}")
    if process.devices or process.part not in (None, "helper"):
        for kind, known in (
            ("profiles", {mine.name}),
            ("environments", mine.environments),
            ("jobs", mine.jobs),
        ):
            for mark in process.marks:
                if mark[0] == kind and mark[1] in known:
                    why = f"it uses @/{kind}/{mark[1]} ({mark[2]})"
                    return Verdict(process, "ours", why, "record")
    if process.unreadable:
        return Verdict(process, "unknown", f"not readable: {', '.join(process.unreadable)}")
    return Verdict(process, "foreign", "nothing ties it to this profile")


def system_name(process: Process, more: Sequence[str] = ()) -> str | None:
    """The system service that this is, by program or by the kernel's 15 characters of it."""
    program = PurePath(process.command[0]).name if process.command else process.comm
    for name in (*SYSTEM, *more):
        if program == name or process.comm == name[:COMM_LENGTH]:
            return name
    return None


def _servers(processes: Sequence[Process]) -> list[list[Process]]:
    """vLLM's processes, those of one tree together: server, engine cores, workers, Ray node."""
    parts = {process.pid: process for process in processes if process.part is not None}
    trees: dict[int, list[Process]] = {}
    for process in parts.values():
        top = process
        seen = {top.pid}
        while top.parent in parts and top.parent not in seen:
            top = parts[top.parent]
            seen.add(top.pid)
        trees.setdefault(top.pid, []).append(process)
    return list(trees.values())


def _judge_server(server: list[Process], verdicts: dict[int, Verdict], mine: Mine) -> None:
    """One tie suffices for a whole server; a title counts inside the profile's container, and
    only where the server holds GPUs of the profile and no other."""
    tie = next((verdicts[p.pid] for p in server if verdicts[p.pid].word == "ours"), None)
    if tie is not None:
        why = f"it is one server with {tie.process.pid}: {tie.why}"
        _decide(server, verdicts, "ours", why, "record")
        return
    inside = all(pid_in(process, mine.namespace) is not None for process in server)
    if not (mine.container and inside) or any(p.profiles() for p in server):
        return
    gpus = [process.gpus for process in server]
    held = frozenset().union(*(some for some in gpus if some is not None))
    if None in gpus:
        _decide(server, verdicts, "unknown", "which GPU it holds is not known")
    elif not held:
        return
    elif not held <= mine.gpus:
        _decide(server, verdicts, "foreign", "it holds GPUs that are not this profile's")
    elif _serves_others(server, verdicts):
        _decide(server, verdicts, "foreign", "its Ray node also runs other work")
    else:
        why = "a vLLM process inside the profile's container"
        _decide(server, verdicts, "ours", why, "title")


def _serves_others(server: list[Process], verdicts: dict[int, Verdict]) -> bool:
    nodes = {process.pid for process in server if process.part == "ray-node"}
    return any(
        v.process.parent in nodes and v.process.part is None and v.process.devices
        for v in verdicts.values()
    )


def _decide(
    server: list[Process],
    verdicts: dict[int, Verdict],
    word: Word,
    why: str,
    proof: Proof = "none",
) -> None:
    for process in server:
        known = verdicts[process.pid].word != "foreign"
        if not (known or process.profiles() or process.zombie):
            verdicts[process.pid] = Verdict(process, word, why, proof)


def _spread(verdicts: dict[int, Verdict]) -> None:
    """Children of ours are ours, and so are orphans of the same process group."""
    grown = True
    while grown:
        grown = False
        for pid, verdict in list(verdicts.items()):
            process = verdict.process
            if verdict.word != "foreign" or process.profiles() or process.zombie:
                continue
            near = verdicts.get(process.parent)
            if near is None or near.word != "ours" or near.process.part == "ray-node":
                near = _of_one_group(process, verdicts) if _may_join(process) else None
            if near is not None:
                why = f"it belongs to {near.process.pid} ({near.process.comm}), which is ours"
                verdicts[pid] = Verdict(process, "ours", why, near.proof)
                grown = True


def _may_join(process: Process) -> bool:
    """Orphans without a GPU of their own: a resource tracker, a server whose engine is left."""
    return process.part is not None and process.gpus == frozenset()


def _of_one_group(process: Process, verdicts: dict[int, Verdict]) -> Verdict | None:
    for other in verdicts.values():
        if (
            other.word == "ours"
            and other.process.part is not None
            and (process.session, process.group) == (other.process.session, other.process.group)
            and process.namespaces == other.process.namespaces
        ):
            return other
    return None


def select(verdicts: Sequence[Verdict], mine: Mine, scope: Scope) -> Selection:
    """What a scope stops. System, unknown and dead processes never, nor others that draw with the
    GPU; others' GPUs never."""
    chosen = [v for v in verdicts if not v.process.zombie and _wanted(v, mine, scope)]
    wanted = {v.process.pid for v in chosen}
    spared = [
        v
        for v in verdicts
        if v.process.pid not in wanted and not v.process.zombie and _on(v.process, mine.gpus)
    ]
    return Selection(
        stop=tuple(sorted((v for v in chosen if not v.process.frozen), key=_order)),
        frozen=tuple(v for v in chosen if v.process.frozen),
        spared=tuple(spared),
    )


def _on(process: Process, gpus: frozenset[str]) -> bool:
    """Whether it holds one of these GPUs, as far as is known."""
    return process.gpus is not None and bool(process.gpus & gpus)


def _wanted(verdict: Verdict, mine: Mine, scope: Scope) -> bool:
    process = verdict.process
    if verdict.word == "ours":
        # What our records name on another GPU is not in this deployment's way.
        return not process.gpus or process.gpus is None or _on(process, mine.gpus)
    if process.graphics or verdict.word != "foreign" or scope == "ours" or process.gpus is None:
        return False
    if not process.gpus or not process.gpus <= mine.gpus:
        return False
    inside = mine.container and pid_in(process, mine.namespace) is not None
    return scope == "gpu" or inside


def _order(verdict: Verdict) -> tuple[int, int]:
    """Who starts others goes first, so that nothing comes back."""
    ranks = {"ray-node": 0, "server": 1, "ray-worker": 2, "engine": 3}
    return ranks.get(verdict.process.part or "", 4), verdict.process.pid
