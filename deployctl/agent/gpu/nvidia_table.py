"""What nvidia-smi prints for people only: its process table, its list of devices, its links.

Pure. Asked where the CSV does not tell: a process's memory on a divided GPU, whose a MIG instance
is, which GPUs are joined by NVLink.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

_PROCESS = re.compile(
    r"\|\s+(?P<gpu>\d+)\s+(?:(?P<gi>N/A|\d+)\s+(?P<ci>N/A|\d+)\s+)?(?P<pid>\d+)\s+"
    r"(?P<type>C|G|C\+G|M\+C|M\+C\+G)\s+(?P<name>\S.*?)\s+(?P<memory>\d+MiB|\d+\.\.\.|N/A)\s*\|"
)
_GPU_LINE = re.compile(r"GPU \d+:(?:.* \(UUID: ([0-9A-Za-z-]+)\))?")
_MIG_LINE = re.compile(r"\s+MIG .* \(UUID: (MIG-[0-9A-Za-z/-]+)\)")


def parse_processes(text: str) -> List[Dict[str, Any]]:
    """Rows of the process table: `gpu` (index), `instance` ("GI/CI" or None), `pid`, `name`,
    `memory` in MiB, None where the column was cut (`13042...`) or says N/A."""
    rows = []
    for line in text.splitlines():
        found = _PROCESS.fullmatch(line.strip())
        if found is None:
            continue
        memory, gi = found["memory"], found["gi"]
        rows.append(
            {
                "gpu": int(found["gpu"]),
                "instance": None if gi in (None, "N/A") else gi + "/" + found["ci"],
                "pid": int(found["pid"]),
                "name": found["name"],
                "type": found["type"],
                "memory": int(memory[:-3]) if memory.endswith("MiB") else None,
            }
        )
    return rows


def mig_parents(text: str) -> Dict[str, str]:
    """UUID of the GPU by that of its MIG instance, from `nvidia-smi -L`."""
    parents: Dict[str, str] = {}
    gpu: Optional[str] = None
    for line in text.splitlines():
        card, instance = _GPU_LINE.match(line), _MIG_LINE.match(line)
        if card:
            gpu = card.group(1)
        elif instance and gpu is not None:
            parents[instance.group(1)] = gpu
    return parents


def parse_links(text: str) -> Optional[Dict[int, List[int]]]:
    """GPUs joined by NVLink to each, by index, from `nvidia-smi topo -m`; None where the table
    is not as known. A cell `NV18` is eighteen links; `SYS`, `PHB` and the like are PCIe."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).split() for line in text.splitlines()]
    header = next((line for line in lines if line and line[0].startswith("GPU")), None)
    if header is None:
        return None
    columns = [int(name[3:]) for name in header if re.fullmatch(r"GPU\d+", name)]
    peers: Dict[int, List[int]] = {}
    for line in lines:
        if line == header or not line or not re.fullmatch(r"GPU\d+", line[0]):
            continue
        cells = line[1 : 1 + len(columns)]
        if len(cells) < len(columns) or "X" not in cells:
            return None
        peers[int(line[0][3:])] = [
            other for other, cell in zip(columns, cells) if re.fullmatch(r"NV\d+", cell)
        ]
    return peers if sorted(peers) == sorted(columns) else None
