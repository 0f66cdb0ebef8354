#!/usr/bin/env python3
"""A stand-in for nvidia-smi whose processes are real ones: whoever has a device file of a GPU open.

/stand_in/gpus.json says what cannot be real:
    {"driver": "580.159.04",
     "gpus": [{"uuid": "GPU-…", "minor": 0, "total": 143771, "extra": 0, "mig": "Disabled",
               "odd": {"memory.used": "[GPU requires reset]"}, "app_memory": "[N/A]"}],
     "says": {"status": 9, "stdout": "…"},   instead of any answer
     "hangs": false, "hide": ["compute_cap"], "links": "…text of topo -m…"}
A process's memory is GPU_MEMORY_MIB of its environment; `extra` is in use by nobody. One with
GPU_TYPE=G only draws: the table shows it, and the query for compute processes does not.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict


class Always(TypedDict):
    uuid: str
    minor: int
    total: int


class Gpu(Always, total=False):
    name: str
    extra: int
    mig: str
    odd: dict[str, str]
    app_memory: str


class Said(TypedDict):
    status: int
    stdout: str


class Known(TypedDict):
    driver: str
    gpus: list[Gpu]


class State(Known, total=False):
    says: Said
    hangs: bool
    hide: list[str]
    links: str


STATE = Path("/stand_in/gpus.json")


def holders(gpus: Sequence[Gpu]) -> Iterator[tuple[int, Gpu]]:
    """(pid, GPU) of every process with the GPU's device open, in this PID namespace."""
    numbers = {os.makedev(203, gpu["minor"]): gpu for gpu in gpus}
    for process in Path("/proc").glob("[0-9]*"):
        held = {}
        try:
            for file in (process / "fd").iterdir():
                try:
                    gpu = numbers.get(file.stat().st_rdev)
                except OSError:
                    continue
                if gpu is not None:
                    held[gpu["uuid"]] = gpu
        except OSError:
            continue
        for gpu in held.values():
            yield int(process.name), gpu


def variable(pid: int, name: str) -> str:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    except OSError:
        return ""
    found = [entry.partition("=")[2] for entry in environment if entry.startswith(f"{name}=")]
    return found[0] if found else ""


def memory(pid: int) -> int:
    return int(variable(pid, "GPU_MEMORY_MIB") or 0)


def shown_memory(pid: int, gpu: Gpu) -> str:
    return gpu.get("app_memory", str(memory(pid)))


def print_processes(gpus: Sequence[Gpu], held: Sequence[tuple[int, Gpu]]) -> int:
    """The part of the table that names processes."""
    print("| Processes:                                                            |")
    for pid, gpu in held:
        kind, used = variable(pid, "GPU_TYPE") or "C", shown_memory(pid, gpu)
        used = f"{used}MiB" if used.isdigit() else "N/A"
        index = gpus.index(gpu)
        print(f"|  {index:>3}   N/A  N/A  {pid:>14}    {kind:>3}   {title(pid):<40} {used:>9} |")
    return 0


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode() or "[Not Found]"
    except OSError:
        return "[Not Found]"


def gpu_values(
    index: int, gpu: Gpu, state: State, held: Sequence[tuple[int, Gpu]]
) -> dict[str, object]:
    used = gpu.get("extra", 0) + sum(memory(pid) for pid, other in held if other is gpu)
    return {
        "index": index,
        "uuid": gpu["uuid"],
        "name": gpu.get("name", "NVIDIA H200"),
        "pci.bus_id": f"00000000:{index + 1:02X}:00.0",
        "memory.total": gpu["total"],
        "memory.used": used,
        "driver_version": state["driver"],
        "persistence_mode": "Enabled",
        "mig.mode.current": gpu.get("mig", "Disabled"),
        "compute_cap": "9.0",
        **gpu.get("odd", {}),
    }


def print_table(fields: Sequence[str], rows: Sequence[Mapping[str, object]], state: State) -> int:
    for field in fields:
        if field in state.get("hide", ()):
            print(f'Field "{field}" is not a valid field to query.\n')
            return 2
    for row in rows:
        print(", ".join(str(row[field]) for field in fields))
    return 0


def reset(indices: Sequence[int], gpus: Sequence[Gpu], held: Sequence[tuple[int, Gpu]]) -> int:
    busy = [i for i in indices if any(gpu is gpus[i] for _, gpu in held)]
    if busy:
        print("The following GPUs could not be reset:")
        for index in busy:
            print(f"  GPU 00000000:{index + 1:02X}:00.0: In use by another client")
        return 255
    for index in indices:
        gpus[index]["extra"] = 0
        print(f"GPU 00000000:{index + 1:02X}:00.0 was successfully reset.")
    print("All done.")
    return 0


def main(arguments: Sequence[str]) -> int:
    state: State = json.loads(STATE.read_text())
    if state.get("hangs"):
        time.sleep(600)
    if "says" in state:
        print(state["says"]["stdout"], end="")
        return state["says"]["status"]
    gpus = state["gpus"]
    held = list(holders(gpus))
    joined = " ".join(arguments)
    query = re.search(r"--query-(gpu|compute-apps)=(\S+)", joined)
    if query and query[1] == "gpu":
        rows = [gpu_values(index, gpu, state, held) for index, gpu in enumerate(gpus)]
        return print_table(query[2].split(","), rows, state)
    if query:
        rows = [
            {
                "gpu_uuid": gpu["uuid"],
                "pid": pid,
                "process_name": title(pid),
                "used_memory": shown_memory(pid, gpu),
            }
            for pid, gpu in held
            if variable(pid, "GPU_TYPE") != "G"
        ]
        return print_table(query[2].split(","), rows, state)
    if not arguments:
        return print_processes(gpus, held)
    if arguments[:2] == ["topo", "-m"]:
        print(state.get("links", "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n"))
        return 0
    if arguments[:1] == ["--gpu-reset"]:
        code = reset([int(index) for index in arguments[2].split(",")], gpus, held)
        STATE.write_text(json.dumps(state))
        return code
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
