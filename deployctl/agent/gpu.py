"""The GPUs of this machine."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import nvidia_smi, programs
from .interface import Call

TIMEOUT = 15.0
"""Seconds for one question to nvidia-smi; without persistence mode it loads the driver first."""


def state(call: Call, timeout: float = TIMEOUT) -> Dict[str, Any]:
    """The GPUs as nvidia-smi tells them, and the compute processes on them.

    `present` is False, with a `reason`, where there is no driver or no GPU: a fact, not an error.
    `unknown` says why the list may be incomplete or wrong; a GPU's own `unknown` names its values
    that were not told. Memory in MiB. `apps_unknown` says why `apps` is not the whole truth.
    """
    program = programs.find(call, "nvidia-smi")
    majors = device_majors()
    if program is None and not majors:
        return absent("no NVIDIA driver is loaded and there is no nvidia-smi")
    if program is None:
        return present([], "the NVIDIA driver is loaded, but there is no nvidia-smi to ask")
    gpus, fields = _query(call, program, timeout)
    if gpus.status in (nvidia_smi.NO_DRIVER, nvidia_smi.NO_DEVICES) and not _driver_knows_gpus():
        return absent(nvidia_smi.complaint(gpus.status, gpus.stdout, gpus.stderr))
    table = nvidia_smi.parse_gpus(gpus.status, gpus.stdout, fields)
    if table.unknown is None and not table.rows:
        table = nvidia_smi.Table([], "nvidia-smi named no GPU")
    if not table.rows:
        return present([], table.unknown)
    for row in table.rows:
        row["minor"] = device_minor(row["bus"])
    query = "--query-compute-apps=" + ",".join(nvidia_smi.APP_FIELDS)
    told = programs.ask(call, [program, query, nvidia_smi.FORMAT], timeout)
    apps = nvidia_smi.parse_apps(told.status, told.stdout)
    return dict(present(table.rows, table.unknown), apps=apps.rows, apps_unknown=apps.unknown)


def absent(reason: str) -> Dict[str, Any]:
    """The answer of a machine without GPUs."""
    return {
        "present": False,
        "reason": reason,
        "gpus": [],
        "unknown": None,
        "apps": [],
        "apps_unknown": None,
    }


def present(gpus: List[Dict[str, Any]], unknown: Optional[str]) -> Dict[str, Any]:
    """The answer of a machine with GPUs, before its processes are known."""
    return {
        "present": True,
        "reason": None,
        "gpus": gpus,
        "unknown": unknown,
        "apps": [],
        "apps_unknown": unknown,
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


def device_majors(path: str = "/proc/devices") -> Dict[str, int]:
    """Character device majors of the NVIDIA drivers by name; uvm's and caps' are dynamic."""
    found: Dict[str, int] = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("Block"):
                break
            number, _, name = line.strip().partition(" ")
            if number.isdigit() and name.startswith("nvidia"):
                found[name] = int(number)
    return found


DRIVER = "/proc/driver/nvidia"


def _driver_knows_gpus() -> bool:
    try:
        return bool(os.listdir(DRIVER + "/gpus"))
    except OSError:
        return False


def device_minor(bus: Optional[str]) -> Optional[int]:
    """N of /dev/nvidiaN for a PCI address; it need not be nvidia-smi's index. None: not told."""
    if bus is None:
        return None
    domain, rest = bus.lower().split(":", 1)
    name = f"{int(domain, 16):04x}:{rest}"
    try:
        with open(f"{DRIVER}/gpus/{name}/information", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "Device Minor" and value.strip().isdigit():
                    return int(value)
    except OSError:
        pass
    return None


OPERATIONS = (state,)
