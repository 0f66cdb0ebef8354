"""The GPUs of this machine: their state, who holds them, ending holders, memory, reset."""

from __future__ import annotations

import time
from typing import Any, List, Optional, Sequence, Tuple

from ..core import programs
from ..core.interface import AgentError, Call
from ..processes import processes
from ..processes.places import Places
from ..processes.stopping import Stopping, stuck_threads
from ..wire.gpus import (
    Fate,
    Gpu,
    GpuState,
    Holders,
    Links,
    MemoryAt,
    Reset,
    Settled,
    Stuck,
    Target,
)
from . import devices, nvidia_smi, nvidia_table, unified
from .holders import read_all, read_process
from .survey import survey

TIMEOUT = 15.0
"""Seconds for one question to nvidia-smi; without persistence mode it loads the driver first."""


def state(call: Call, timeout: float = TIMEOUT) -> GpuState:
    """The GPUs as nvidia-smi tells them, and the compute processes on them.

    `present` is False, with a `reason`, where there is no driver or no GPU: a fact, not an error.
    `unknown` says why the list may be wrong, `incomplete` why GPUs beside those in it may exist;
    a GPU's own `unknown` names its values that were not reported, `remarks` what was printed
    beside. Memory in MiB. `apps_unknown` says why `apps` is not the whole truth.
    """
    program = programs.find(call, "nvidia-smi")
    loaded = bool(devices.read_devices().majors)
    if program is None and not loaded:
        return _absent("no NVIDIA driver is loaded and there is no nvidia-smi")
    if program is None:
        why = "the NVIDIA driver is loaded, but there is no nvidia-smi to ask"
        return _by_nvml(call, timeout, why)
    told, fields = _query(call, program, timeout)
    words = nvidia_smi.complaint(told.status, told.stdout, told.stderr)
    if told.status == nvidia_smi.NO_DRIVER and not loaded:
        return _absent(words)
    if told.status == nvidia_smi.NO_DEVICES and not devices.gpu_count():
        return _absent(words)
    table = nvidia_smi.parse_gpus(told.status, told.stdout, fields)
    if told.status is None:
        # A driver that keeps nvidia-smi waiting would keep NVML waiting as well.
        return _present([], table.unknown)
    if not table.rows:
        return _by_nvml(call, timeout, table.unknown or "nvidia-smi named no GPU")
    if any(row[key] is None for row in table.rows for key in ("memory_used", "bus", "driver")):
        from . import nvml

        nvml.fill(table.rows, nvml.ask(call, timeout)["gpus"])
    for row in table.rows:
        row["minor"] = devices.device_minor(row["bus"])
    unified.mark(table.rows)
    # The kernel's own list shows that none is missing, whatever else nvidia-smi printed.
    whole = len(table.rows) == devices.gpu_count()
    answer = _present(table.rows, None)
    answer["remarks"] = list(table.remarks)
    answer["incomplete"] = None if whole else table.unknown
    _fill_apps(answer, call, program, timeout)
    unified.fill(table.rows, answer["apps"], answer["apps_unknown"])
    return answer


def _by_nvml(call: Call, timeout: float, unknown: str) -> GpuState:
    """The GPUs by NVML alone; where that says nothing either, `unknown` is why."""
    from . import nvml

    told = nvml.ask(call, timeout)
    if not told["gpus"]:
        return _present([], "; ".join(part for part in (unknown, told["unknown"]) if part))
    apps = nvml.apps(told["gpus"])
    gpus: Any = told["gpus"]
    unified.mark(gpus)
    answer = _present(gpus, None)
    answer["remarks"], answer["apps"] = [unknown], apps or []
    answer["apps_unknown"] = "NVML does not report the processes" if apps is None else None
    unified.fill(told["gpus"], answer["apps"], answer["apps_unknown"])
    return answer


def _absent(reason: str) -> GpuState:
    answer = _present([], None)
    answer["present"], answer["reason"] = False, reason
    return answer


def _present(gpus: List[Gpu], unknown: Optional[str]) -> GpuState:
    return {
        "present": True,
        "reason": None,
        "gpus": gpus,
        "unknown": unknown,
        "incomplete": None,
        "remarks": [],
        "apps": [],
        "apps_unknown": unknown,
        "graphics": [],
    }


def _query(call: Call, program: str, timeout: float) -> Tuple[programs.Answer, Sequence[str]]:
    """Ask for every field that this nvidia-smi knows; old ones refuse newer fields by name."""
    fields: Tuple[str, ...] = nvidia_smi.GPU_FIELDS
    while True:
        query = "--query-gpu=" + ",".join(fields)
        told = programs.ask(call, [program, query, nvidia_smi.FORMAT], timeout)
        refused = nvidia_smi.refused_field(told.stdout + told.stderr)
        if refused not in fields:
            return told, fields
        fields = tuple(field for field in fields if field != refused)


def _fill_apps(answer: GpuState, call: Call, program: str, timeout: float) -> None:
    query = "--query-compute-apps=" + ",".join(nvidia_smi.APP_FIELDS)
    told = programs.ask(call, [program, query, nvidia_smi.FORMAT], timeout)
    apps = nvidia_smi.parse_apps(told.status, told.stdout)
    unknown = apps.unknown
    if any((row["uuid"] or "").startswith("MIG-") for row in apps.rows):
        listed = programs.ask(call, [program, "-L"], timeout)
        unknown = nvidia_smi.to_gpus(apps.rows, nvidia_table.mig_parents(listed.stdout)) or unknown
    shown = nvidia_table.parse_processes(programs.ask(call, [program], timeout).stdout)
    if any(row["memory"] is None for row in apps.rows):
        nvidia_smi.fill_memory(apps.rows, answer["gpus"], shown)
    answer["apps"], answer["apps_unknown"] = apps.rows, unknown
    answer["graphics"] = sorted({row["pid"] for row in shown if "G" in row["type"]})


def holders(call: Call, patterns: Sequence[str] = ()) -> Holders:
    """Every process that has a GPU device file open or mapped, every process whose name or command
    matches one of `patterns`, every process below the root, and the relatives of all these.

    `unreadable` names processes whose tables could not be read: what they hold is unknown.
    `devices` is empty where no NVIDIA driver is loaded: then no process can hold one.
    """
    numbers = devices.read_devices()
    return {**survey(call.root, numbers, patterns), "devices": numbers.majors}


def stop(call: Call, targets: List[Target], grace: float, patience: float = 5.0) -> List[Fate]:
    """End processes found by `holders`: `pid`, `start`, and `device`, true where its GPU is its
    only tie to us. One row each: `fate` is ended, killed, gone, spared, frozen, refused or left
    (survives SIGKILL; `stuck` then says where in the kernel each thread is)."""
    numbers = devices.read_devices()

    def holds(pid: int) -> bool:
        stat = processes.read_stat(pid)
        if stat is None:
            return False
        found = read_all([stat], lambda one: read_process(one, numbers, call.root, Places()))
        return any(entry["devices"] or entry["mapped"] for entry in found)

    return Stopping(targets, holds).run(grace, patience)


def stuck(call: Call, pids: List[int]) -> List[Stuck]:
    """Where in the kernel processes are that did not end on SIGKILL, thread by thread."""
    return [{"pid": pid, "stuck": stuck_threads(pid)} for pid in pids]


def settle(call: Call, uuids: List[str], below: int, limit: float, still: float) -> Settled:
    """Watch the memory in use of GPUs until each is below `below` MiB, or none has fallen for
    `still` seconds, or `limit` seconds are over.

    `memory` is the last value of each, None where it is not reported; `course` its changes over
    time.
    """
    began = fell = time.monotonic()
    course: List[MemoryAt] = []
    while True:
        now = state(call)
        memory = {gpu["uuid"]: gpu["memory_used"] for gpu in now["gpus"] if gpu["uuid"] in uuids}
        seconds = time.monotonic() - began
        if not course or course[-1]["memory"] != memory:
            if course and any(_fell(course[-1]["memory"].get(u), memory.get(u)) for u in uuids):
                fell = time.monotonic()
            course.append({"seconds": round(seconds, 3), "memory": memory})
            call.emit({"seconds": seconds, "memory": memory})
        free = all(_below(memory.get(uuid), below) for uuid in uuids)
        if free or seconds > limit or time.monotonic() - fell > still:
            return {
                "free": free,
                "memory": {uuid: memory.get(uuid) for uuid in uuids},
                "seconds": round(seconds, 3),
                "course": course,
                "unknown": now["unknown"],
            }
        call.cancelled.wait(0.1)
        call.step()


def _below(memory: Optional[int], limit: int) -> bool:
    return memory is not None and memory < limit


def _fell(before: Optional[int], after: Optional[int]) -> bool:
    return before is not None and after is not None and after < before


def links(call: Call) -> Links:
    """NVLink peers of every GPU by index, from `nvidia-smi topo -m`; `unknown` says why not."""
    program = programs.find(call, "nvidia-smi")
    if program is None:
        return {"peers": {}, "unknown": "there is no nvidia-smi"}
    told = programs.ask(call, [program, "topo", "-m"], TIMEOUT)
    if told.status != 0:
        return {"peers": {}, "unknown": nvidia_smi.complaint(told.status, told.stdout)}
    peers = nvidia_table.parse_links(told.stdout)
    unknown = None if peers else "nvidia-smi's table of links is not as known"
    return {"peers": {str(gpu): found for gpu, found in (peers or {}).items()}, "unknown": unknown}


def reset(call: Call, indices: List[int]) -> Reset:
    """Reset GPUs. Whether that is right was decided before; nvidia-smi itself refuses while
    anybody uses them. Error `refused`, with nvidia-smi's words."""
    program = programs.find(call, "nvidia-smi")
    if program is None:
        raise AgentError("refused", "there is no nvidia-smi")
    chosen = ",".join(str(index) for index in indices)
    told = programs.ask(call, [program, "--gpu-reset", "-i", chosen], 120.0)
    said = told.stdout.strip()
    if told.status != 0 or said.count("successfully reset") != len(indices):
        raise AgentError("refused", nvidia_smi.complaint(told.status, said, told.stderr))
    return {"reset": indices, "said": said}


OPERATIONS = (state, holders, stop, stuck, settle, links, reset)
