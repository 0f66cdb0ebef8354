"""nvidia-smi's answers, row by row: what is not exactly as documented is unknown, never 0.

Pure. Format: `--format=csv,noheader,nounits`, one line a GPU or process, fields separated by `, `;
names are not quoted and may hold commas. A field may read `[N/A]`, `[Not Supported]`,
`[Unknown Error]`, `[GPU requires reset]` or `ERR!`; warnings and complaints may stand between the
rows, on stdout. UUIDs are opaque: those of Tegra have no `GPU-`. Exit codes (nvidia-smi(1)): 0 ·
2 bad argument · 4 permission · 6 no device · 9 no driver · 12 no NVML · 14 an infoROM is corrupted,
a warning · 15 off the bus · 255 other.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..wire.gpus import Gpu, GpuProcess

GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "memory.total",
    "memory.used",
    "driver_version",
    "persistence_mode",
    "mig.mode.current",
    "compute_cap",
)
APP_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
FORMAT = "--format=csv,noheader,nounits"

MOST_REMARKS = 20
NO_DEVICES = 6
NO_DRIVER = 9
WARNED = (0, 14)
"""Statuses of an answer that is whole."""

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9/._-]*-[A-Za-z0-9/._-]+")
_WARNING = re.compile(r"(?i)\s*warning\b")
_HEX = "[0-9A-Fa-f]"
_BUS = re.compile(rf"(?<!{_HEX})(?:({_HEX}{{4,8}}):)?({_HEX}{{2}}:{_HEX}{{2}}\.{_HEX})\b")
_INDEX = re.compile(rf"(?i)\bgpu\s*#?(\d{{1,4}})\b(?!:{_HEX})")
_NAME = r"(?!(?:ERR!|N/A|Not Supported|Unknown Error)$)[^\[].*"
_VERSION = re.compile(r"\d+(\.\d+)+")
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')


class Table(NamedTuple):
    """Rows that were understood; `unknown` says why they may not be all, None where they are;
    `remarks` are the lines that are no rows."""

    rows: List[Any]
    unknown: Optional[str]
    remarks: Tuple[str, ...] = ()


def refused_field(text: str) -> Optional[str]:
    """The field that this nvidia-smi does not know (an old one, asked for a newer field)."""
    found = _REFUSED.search(text)
    return found.group(1) if found else None


def complaint(status: Optional[int], stdout: str, stderr: str = "") -> str:
    """Why an nvidia-smi that did not end with 0 gives no answer, in its own words."""
    if status is None:
        return "nvidia-smi did not answer in time"
    said = " ".join((stdout + " " + stderr).split())
    how = f"ended with {status}" if status >= 0 else f"was ended by signal {-status}"
    return f"nvidia-smi {how}: {said[:400]}" if said else f"nvidia-smi {how} without output"


def parse_gpus(status: Optional[int], stdout: str, fields: Sequence[str] = GPU_FIELDS) -> Table:
    """One row a GPU, memory in MiB. In a row, a value that is not as documented is None and named
    in its `unknown`; a complaint about it is in its `remarks`. Good rows stand whatever else was
    printed; a line that is neither a row nor a warning, or another status, leaves open whether
    there are more."""
    table = _table(status, stdout, fields, "name", _gpu)
    for remark in table.remarks:
        for row in table.rows:
            if _is_about(remark, row):
                row.setdefault("remarks", []).append(remark)
    return table


def parse_apps(status: Optional[int], stdout: str) -> Table:
    """One row a compute process and GPU, memory in MiB or None; no output means no process."""
    return _table(status, stdout, APP_FIELDS, "process_name", _app)


def _table(
    status: Optional[int], stdout: str, fields: Sequence[str], named: str, read: Any
) -> Table:
    rows: List[Any] = []
    odd: List[str] = []
    for line in stdout.split("\n"):
        if not line.strip():
            continue
        cells = _cells(line, fields, named)
        row = read(cells) if cells else None
        if row is None:
            odd.append(line.strip())
        else:
            rows.append(row)
    remarks = tuple(line[:400] for line in odd[:MOST_REMARKS])
    complaints = [line for line in odd if not _WARNING.match(line)]
    if status not in WARNED or (status and not rows and not odd):
        return Table(rows, complaint(status, "\n".join(odd)), remarks)
    if complaints:
        return Table(rows, "nvidia-smi printed: " + " / ".join(complaints)[:400], remarks)
    return Table(rows, None, remarks)


def _cells(line: str, fields: Sequence[str], named: str) -> Dict[str, str]:
    """A line's fields; only the name may hold the separator. Empty where there are too few."""
    cells = [cell.strip() for cell in line.split(", ")]
    more = len(cells) - len(fields)
    if more < 0 or (more and named not in fields):
        return {}
    at = list(fields).index(named) if more else 0
    if more:
        cells[at : at + more + 1] = [", ".join(cells[at : at + more + 1])]
    return dict(zip(fields, cells))


def _is_about(remark: str, row: Gpu) -> bool:
    """Whether a line names a GPU, by its address on the bus or its index."""
    bus = _BUS.search(remark)
    if bus and row["bus"]:
        # The domain counts: on Azure and POWER, GPUs differ by nothing else.
        domain, _, place = row["bus"].lower().partition(":")
        same = bus.group(1) is None or int(bus.group(1), 16) == int(domain, 16)
        return bool(same and bus.group(2).lower() == place)
    index = _INDEX.search(remark)
    return row["uuid"] in remark or bool(index and int(index.group(1)) == row["index"])


def _gpu(cells: Dict[str, str]) -> Optional[Gpu]:
    """None where the row does not even say which GPU it is about."""
    if not _digits(cells["index"]) or not _UUID.fullmatch(cells["uuid"]):
        return None
    unknown: Dict[str, str] = {}

    def value(field: str, good: bool, convert: Any = str) -> Any:
        if field not in cells:
            unknown[field] = "this nvidia-smi does not report it"
            return None
        if good:
            return convert(cells[field])
        unknown[field] = cells[field]
        return None

    def number(field: str) -> Any:
        return value(field, _digits(cells.get(field, "")), int)

    def pattern(field: str, form: str) -> Any:
        return value(field, re.fullmatch(form, cells.get(field, "")) is not None)

    switch = {"Enabled": True, "Disabled": False}
    mig = cells.get("mig.mode.current", "")
    return {
        "index": int(cells["index"]),
        "uuid": cells["uuid"],
        "name": pattern("name", _NAME),
        "bus": pattern("pci.bus_id", r"[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-9]"),
        "memory_total": number("memory.total"),
        "memory_used": number("memory.used"),
        "driver": pattern("driver_version", _VERSION.pattern),
        "persistence": value(
            "persistence_mode", cells.get("persistence_mode") in switch, switch.__getitem__
        ),
        # A card without MIG says [N/A]: that is an answer.
        "mig": False
        if mig in ("[N/A]", "[Not Supported]", "N/A")
        else value("mig.mode.current", mig in switch, switch.__getitem__),
        "compute_cap": pattern("compute_cap", _VERSION.pattern),
        "unknown": unknown,
    }


def _app(cells: Dict[str, str]) -> Optional[GpuProcess]:
    if not _UUID.fullmatch(cells["gpu_uuid"]) or not _digits(cells["pid"]):
        return None
    name, memory = cells["process_name"], cells["used_memory"]
    if not _digits(memory) and not re.fullmatch(r"\[[^\]]+\]|ERR!|N/A", memory):
        return None
    return {
        "uuid": cells["gpu_uuid"],
        "pid": int(cells["pid"]),
        "instance": None,
        "name": None if name.startswith("[") else name,
        "memory": int(memory) if _digits(memory) else None,
    }


def to_gpus(rows: List[GpuProcess], parents: Dict[str, str]) -> Optional[str]:
    """Give rows of MIG instances the UUID of their GPU; says which instance is not known."""
    lost = None
    for row in rows:
        instance = row["uuid"] or ""
        if instance.startswith("MIG-"):
            row["instance"], row["uuid"] = instance, parents.get(instance)
            if row["uuid"] is None:
                lost = "the GPU of instance %s was not reported" % instance
    return lost


def fill_memory(rows: List[GpuProcess], gpus: List[Gpu], shown: List[Dict[str, Any]]) -> None:
    """Take from the table for people the memory that the CSV did not report."""
    indices = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    told = {(row["gpu"], row["pid"]): row["memory"] for row in shown}
    for row in rows:
        if row["memory"] is None:
            row["memory"] = told.get((indices.get(row["uuid"] or "", -1), row["pid"]))


def _digits(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}", text) is not None
