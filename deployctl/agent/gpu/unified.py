"""GPUs that share the machine's memory: GB10 (DGX Spark), Thor, Orin, and others of their kind.

nvidia-smi tells no memory of them (`[N/A]`, `Not Supported`). What such a GPU has is what the
machine has (/proc/meminfo, proc(5)), and in use on it is what its own processes hold.
"""

from __future__ import annotations

import re
from typing import List, Optional

from ..wire.gpus import Gpu, GpuProcess

NONE_OF_ITS_OWN = re.compile(r"\[?(N/A|Not Supported)\]?", re.IGNORECASE)
"""How nvidia-smi writes an amount that a GPU does not have, unlike one that it cannot read
(`[Unknown Error]`, `[GPU requires reset]`, `ERR!`)."""


def mark(gpus: List[Gpu], meminfo: Optional[str] = None) -> None:
    """Tell for each GPU whether its memory is the machine's (`unified`), how much that is, and how
    much of it the kernel could give away now (`memory_available`, as vLLM counts it)."""
    if meminfo is None:
        meminfo = _meminfo()
    for gpu in gpus:
        words = gpu["unknown"].get("memory.total")
        gpu["unified"] = words is not None and NONE_OF_ITS_OWN.fullmatch(words) is not None
        if gpu["unified"]:
            gpu["memory_total"] = _mib(meminfo, "MemTotal")
            gpu["memory_available"] = _mib(meminfo, "MemAvailable")


def fill(gpus: List[Gpu], apps: List[GpuProcess], apps_unknown: Optional[str]) -> None:
    """The memory in use on such GPUs: what their processes hold; None where that is not known of
    one of them."""
    for gpu in gpus:
        if not gpu["unified"]:
            continue
        held = [row["memory"] for row in apps if row["uuid"] == gpu["uuid"]]
        amounts = [amount for amount in held if amount is not None]
        known = apps_unknown is None and len(amounts) == len(held)
        gpu["memory_used"] = sum(amounts) if known else None


def _meminfo() -> str:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _mib(meminfo: str, name: str) -> Optional[int]:
    found = re.search(r"^%s:\s*(\d+) kB$" % name, meminfo, re.MULTILINE)
    return int(found.group(1)) // 1024 if found else None
