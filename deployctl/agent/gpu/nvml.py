"""Asks NVML itself, in a process of its own: where there is no nvidia-smi, or it says less.

Run as a child with a time limit, for a driver call may hang in the kernel. Prints one line of JSON.
Source: NVML API reference; structures of nvml.h.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Callable, Dict, List, Optional

from ..core import programs
from ..core.archive import import_root
from ..core.interface import Call
from ..wire.gpus import Gpu, GpuProcess

LIBRARY = "libnvidia-ml.so.1"
MIB = 1 << 20
NOT_SUPPORTED = 3
NOT_TOLD = (1 << 64) - 1
"""What NVML writes for a process's memory that it does not know."""
MOST_PROCESSES = 4096


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t: memory in use without what the driver has reserved, as nvidia-smi counts."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus", ctypes.c_char * 32),
    ]


class Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Refused(Exception):
    """A call that NVML refused, with its code."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__("%s: %d" % (function, code))
        self.code = code


class Nvml:
    """The few calls that are needed."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self.call("nvmlInit_v2")

    def call(self, function: str, *arguments: Any) -> None:
        code = int(getattr(self._library, function)(*arguments))
        if code != 0:
            raise Refused(function, code)

    def number(self, function: str, *arguments: Any) -> int:
        found = ctypes.c_uint()
        self.call(function, *arguments, ctypes.byref(found))
        return found.value

    def text(self, function: str, *arguments: Any) -> str:
        found = ctypes.create_string_buffer(96)
        self.call(function, *arguments, found, ctypes.c_uint(len(found)))
        return found.value.decode("utf-8", "replace")

    def gpu(self, index: int) -> Dict[str, Any]:
        """One GPU, in the form of nvidia-smi's rows; `minor` is its /dev/nvidiaN."""
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        unknown: Dict[str, str] = {}

        def told(field: str, ask: Callable[[], Any]) -> Any:
            try:
                return ask()
            except (Refused, AttributeError) as error:
                # In the words of nvidia-smi, for a GPU that has no such thing.
                missing = isinstance(error, Refused) and error.code == NOT_SUPPORTED
                unknown[field] = "[Not Supported]" if missing else str(error)
                return None

        memory = told("memory.total", lambda: self._memory(handle))
        return {
            "index": index,
            "uuid": self.text("nvmlDeviceGetUUID", handle),
            "name": told("name", lambda: self.text("nvmlDeviceGetName", handle)),
            "bus": told("pci.bus_id", lambda: self._bus(handle)),
            "minor": told("minor", lambda: self.number("nvmlDeviceGetMinorNumber", handle)),
            "memory_total": memory and memory[0],
            "memory_used": None if memory is None else memory[1],
            "driver": told("driver_version", lambda: self.text("nvmlSystemGetDriverVersion")),
            "persistence": told(
                "persistence_mode",
                lambda: bool(self.number("nvmlDeviceGetPersistenceMode", handle)),
            ),
            "mig": told("mig.mode.current", lambda: self._mig(handle)),
            "compute_cap": told("compute_cap", lambda: self._compute_cap(handle)),
            "unknown": unknown,
            "apps": told("apps", lambda: self._processes(handle)),
        }

    def _memory(self, handle: Any) -> List[int]:
        found = Memory(version=ctypes.sizeof(Memory) | (2 << 24))
        self.call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(found))
        # nvidia-smi rounds what is in use up (measured on an H200).
        return [found.total // MIB, -(-found.used // MIB)]

    def _bus(self, handle: Any) -> str:
        found = Pci()
        self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(found))
        return str(found.bus.decode("ascii", "replace"))

    def _mig(self, handle: Any) -> bool:
        pending = ctypes.c_uint()
        now = ctypes.c_uint()
        try:
            self.call("nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(pending))
        except Refused as error:
            if error.code == NOT_SUPPORTED:
                return False
            raise
        return bool(now.value)

    def _compute_cap(self, handle: Any) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        pair = (ctypes.byref(major), ctypes.byref(minor))
        self.call("nvmlDeviceGetCudaComputeCapability", handle, *pair)
        return "%d.%d" % (major.value, minor.value)

    def _processes(self, handle: Any) -> List[Dict[str, Any]]:
        count = ctypes.c_uint(MOST_PROCESSES)
        found = (Process * MOST_PROCESSES)()
        self.call("nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), found)
        return [
            {
                "pid": one.pid,
                "memory": None if one.memory == NOT_TOLD else one.memory // MIB,
            }
            for one in found[: count.value]
        ]


def main() -> None:
    """Print every GPU, or why there is none."""
    try:
        nvml = Nvml()
        count = nvml.number("nvmlDeviceGetCount_v2")
        answer: Dict[str, Any] = {"gpus": [nvml.gpu(index) for index in range(count)]}
    except (OSError, AttributeError, Refused) as error:
        answer = {"unknown": "NVML: %s" % error}
    print(json.dumps(answer))


def ask(call: Call, timeout: float) -> Dict[str, Any]:
    """`gpus` as NVML tells them, each with its `apps`; `unknown` says why there are none."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from %s import nvml; " % __package__
    argv = [sys.executable, "-I", "-c", code + "nvml.main()", import_root()]
    told = programs.ask(call, argv, timeout)
    try:
        answer: Dict[str, Any] = json.loads(told.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"gpus": [], "unknown": "NVML gave no answer"}
    return {"gpus": answer.get("gpus") or [], "unknown": answer.get("unknown")}


FIELDS = {
    "name": "name",
    "bus": "pci.bus_id",
    "memory_total": "memory.total",
    "memory_used": "memory.used",
    "driver": "driver_version",
    "persistence": "persistence_mode",
    "mig": "mig.mode.current",
    "compute_cap": "compute_cap",
}
"""Keys of a row, by the name that nvidia-smi's field has in its `unknown`."""


def fill(rows: List[Gpu], gpus: List[Dict[str, Any]]) -> None:
    """Give rows of nvidia-smi the values that NVML tells and they do not. Pure."""
    by_uuid = {gpu["uuid"]: gpu for gpu in gpus}
    row: Any  # its keys are those of FIELDS
    for row in rows:
        gpu = by_uuid.get(row["uuid"], {})
        for key, field in FIELDS.items():
            if row[key] is None and gpu.get(key) is not None:
                row[key] = gpu[key]
                row["unknown"].pop(field, None)


def apps(gpus: List[Dict[str, Any]]) -> Optional[List[GpuProcess]]:
    """The compute processes in the form of nvidia-smi's; None where a GPU does not tell. Pure."""
    found: List[GpuProcess] = []
    for gpu in gpus:
        processes = gpu.pop("apps", None)
        if processes is None:
            return None
        for one in processes:
            found.append(
                {
                    "uuid": gpu["uuid"],
                    "pid": one["pid"],
                    "instance": None,
                    "name": None,
                    "memory": one["memory"],
                }
            )
    return found
