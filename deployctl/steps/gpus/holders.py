"""Processes as the agents saw them, joined into one picture. Pure.

The node sees every process and what it holds; the agent inside the container knows which of them
lie below its root. nvidia-smi tells memory and GPU. The three are joined by PID, namespace and
start time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl.agent.wire.gpus import Gpu, GpuProcess, GpuState, Holder, Holders
from deployctl.vllm.serving.titles import Part, part

LINE = 200
"""Characters of a command line that are shown."""


@dataclass(frozen=True)
class Process:
    """One process. `gpus` are UUIDs, None where it is not known which; `memory` in MiB."""

    pid: int
    start: int
    comm: str = ""
    command: tuple[str, ...] = ()
    state: str = "S"
    parent: int = 0
    group: int = 0
    session: int = 0
    user: str | None = None
    started: float | None = None
    zombie: bool = False
    frozen: bool = False
    namespaces: tuple[int, ...] = ()
    inner_pids: tuple[int, ...] = ()
    container: str | None = None
    service: str | None = None
    """The systemd service that it is part of."""
    devices: frozenset[str] = frozenset()
    marks: tuple[tuple[str, str, str], ...] = ()
    """(`profiles`, `environments` or `jobs`, name, how): paths below our root that it uses. A
    profile's units beside its own are named `PROFILE/UNIT`."""
    unreadable: tuple[str, ...] = ()
    gpus: frozenset[str] | None = frozenset()
    indices: tuple[int, ...] = ()
    """The same GPUs as nvidia-smi numbers them."""
    memory: int | None = None
    graphics: bool = False
    """Whether it draws with the GPU: a display, a desktop, a browser (type G or C+G)."""
    own: bool = False
    """The agent that looked, or what it descends from."""

    @property
    def part(self) -> Part | None:
        """Which part of a vLLM server it is."""
        return part(self.comm, self.command)

    @property
    def name(self) -> str:
        """Its command for people, or its short name; a long one ends with a whole word."""
        told = textwrap.shorten(" ".join(self.command), LINE, placeholder=" …")
        return self.comm if told in ("", "…") else told

    def profiles(self) -> set[str]:
        """Units whose directories it uses."""
        return {name for kind, name, _ in self.marks if kind == "profiles"}

    def describe(self) -> dict[str, Any]:
        """What a person must know to recognise it, for plans and evidence."""
        return {
            "pid": self.pid,
            "command": self.name,
            "user": self.user,
            "started": self.started,
            "state": "zombie" if self.zombie else "frozen" if self.frozen else self.state,
            "container": self.container,
            "service": self.service,
            "gpus": None if self.gpus is None else sorted(self.gpus),
            "gpu_indices": list(self.indices),
            "memory_mib": self.memory,
            "devices": sorted(self.devices),
        }


def join(look: Holders, gpus: GpuState, inside: Holders | None = None) -> list[Process]:
    """All processes of a look, with what nvidia-smi and the agent in the container add.

    `gpus` is the answer of `gpu.state` on the same machine; `inside` that of `gpu.holders` in
    the container. A PID that only nvidia-smi knows is a process of which nothing is known.
    """
    own = set(look["own"])
    apps = _apps(gpus)
    found = []
    for entry in look["processes"]:
        process = replace(_process(entry), own=entry["pid"] in own)
        if inside is not None:
            process = _with_inside(process, inside)
        found.append(_with_gpus(process, apps, gpus))
    draws = frozenset(gpus["graphics"])
    found = [replace(p, graphics=True) if p.pid in draws else p for p in found]
    known = {process.pid for process in found}
    for pid, rows in apps.items():
        if pid not in known:
            found.append(_with_gpus(_unseen(pid, rows), apps, gpus))
    return found


def _process(entry: Holder) -> Process:
    place = entry["container"]
    return Process(
        pid=entry["pid"],
        start=entry["start"],
        comm=entry["comm"],
        command=tuple(entry["command"]),
        state=entry["state"],
        parent=entry["parent"],
        group=entry["group"],
        session=entry["session"],
        user=entry["user"],
        started=entry.get("started"),
        zombie=entry["zombie"],
        frozen=entry["frozen"],
        namespaces=tuple(entry["namespaces"]),
        inner_pids=tuple(entry["inner_pids"]),
        container=None if place is None else f"{place['kind']} {place['name']}",
        service=entry["service"],
        devices=frozenset(entry["devices"]) | frozenset(entry["mapped"]),
        marks=_marks(entry),
        unreadable=tuple(entry["unreadable"]),
    )


def _marks(entry: Holder) -> tuple[tuple[str, str, str], ...]:
    return tuple((mark["kind"], mark["name"], mark["how"]) for mark in entry["marks"])


def pid_in(process: Process, namespace: int) -> int | None:
    """Its PID as that PID namespace numbers it; None where it does not belong there."""
    if namespace not in process.namespaces:
        return None
    depth = process.namespaces.index(namespace)
    if depth >= len(process.inner_pids):
        return None
    return process.inner_pids[len(process.inner_pids) - 1 - depth]


def _with_inside(process: Process, inside: Holders) -> Process:
    pid = pid_in(process, inside["namespace"])
    if pid is None:
        # Paths below the node's own root say nothing about a deployment in a container.
        return replace(process, marks=())
    for entry in inside["processes"]:
        if (entry["pid"], entry["start"]) == (pid, process.start):
            own = process.own or pid in inside["own"]
            return replace(process, marks=_marks(entry), own=own)
    return replace(process, marks=())


def _apps(gpus: GpuState) -> dict[int, list[GpuProcess]]:
    apps: dict[int, list[GpuProcess]] = {}
    for row in gpus["apps"]:
        apps.setdefault(row["pid"], []).append(row)
    return apps


def _with_gpus(
    process: Process, apps: Mapping[int, Sequence[GpuProcess]], gpus: GpuState
) -> Process:
    rows = apps.get(process.pid, ())
    if rows:
        held, memory = _uuids(rows), _sum(rows)
    elif process.devices:
        held, memory = _by_devices(process.devices, gpus["gpus"]), None
    else:
        return process
    indices = tuple(gpu["index"] for gpu in gpus["gpus"] if gpu["uuid"] in (held or ()))
    return replace(process, gpus=held, indices=indices, memory=memory)


def _uuids(rows: Sequence[GpuProcess]) -> frozenset[str] | None:
    uuids = [row["uuid"] for row in rows if row["uuid"] is not None]
    return frozenset(uuids) if len(uuids) == len(rows) else None


def _sum(rows: Sequence[GpuProcess]) -> int | None:
    amounts = [row["memory"] for row in rows if row["memory"] is not None]
    return sum(amounts) if len(amounts) == len(rows) else None


def _by_devices(devices: frozenset[str], gpus: Sequence[Gpu]) -> frozenset[str] | None:
    """GPUs by the minor numbers of their files; control files alone name no GPU."""
    numbered = {name for name in devices if name[len("nvidia") :].isdigit()}
    numbers = ((gpu.get("minor"), gpu["uuid"]) for gpu in gpus)
    by_file = {f"nvidia{minor}": uuid for minor, uuid in numbers if minor is not None}
    if numbered and numbered <= by_file.keys():
        return frozenset(by_file[name] for name in numbered)
    # Where there is one GPU only, whoever holds a device holds that one.
    return frozenset({gpus[0]["uuid"]}) if len(gpus) == 1 else None


def _unseen(pid: int, rows: Sequence[GpuProcess]) -> Process:
    name = next((row["name"] for row in rows if row["name"]), "")
    return Process(
        pid=pid,
        start=0,
        comm=name,
        unreadable=("everything: only nvidia-smi knows it",),
    )
