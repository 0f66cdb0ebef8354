"""nvidia-smi's answers, read strictly: what is not exactly as documented is unknown, never 0.

Pure. Format: `--format=csv,noheader,nounits`, one line a GPU or process, fields separated by `, `.
A field may read `[N/A]`, `[Not Supported]`, `[Unknown Error]` or `[GPU requires reset]`; lines of
complaint may stand between the rows, on stdout. Exit codes (nvidia-smi(1)): 0 · 2 bad argument ·
4 permission · 6 no device · 9 no driver · 12 no NVML · 15 off the bus · 255 other.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

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

NO_DEVICES = 6
NO_DRIVER = 9

_UUID = re.compile(r"(GPU|MIG)-[A-Za-z0-9/-]+")
_VERSION = re.compile(r"\d+(\.\d+)+")
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')


class Table(NamedTuple):
    """Rows that were understood; `unknown` says why they may not be all, None where they are."""

    rows: List[Dict[str, Any]]
    unknown: Optional[str]


def refused_field(text: str) -> Optional[str]:
    """The field that this nvidia-smi does not know (an old one, asked for a newer field)."""
    found = _REFUSED.search(text)
    return found.group(1) if found else None


def complaint(status: Optional[int], stdout: str, stderr: str = "") -> str:
    """Why an nvidia-smi that did not end with 0 gives no answer, in its own words."""
    if status is None:
        return "nvidia-smi did not answer in time"
    said = " ".join((stdout + " " + stderr).split())
    return f"nvidia-smi ended with {status}: {said[:400]}" if said else f"nvidia-smi: {status}"


def parse_gpus(status: Optional[int], stdout: str, fields: Sequence[str] = GPU_FIELDS) -> Table:
    """One row a GPU, memory in MiB. In a row, a value that is not as documented is None and named
    in its `unknown`; a line that is no row, or an exit status other than 0, makes the table so."""
    return _table(status, stdout, fields, _gpu)


def parse_apps(status: Optional[int], stdout: str) -> Table:
    """One row a compute process and GPU, memory in MiB or None; nothing said is no process."""
    return _table(status, stdout, APP_FIELDS, _app)


def _table(status: Optional[int], stdout: str, fields: Sequence[str], read: Any) -> Table:
    rows: List[Dict[str, Any]] = []
    odd: List[str] = []
    for line in stdout.splitlines():
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(", ")]
        row = read(dict(zip(fields, cells))) if len(cells) == len(fields) else None
        if row is None:
            odd.append(line.strip())
        else:
            rows.append(row)
    if status != 0:
        return Table(rows, complaint(status, "\n".join(odd)))
    return Table(rows, "nvidia-smi said: " + " / ".join(odd)[:400] if odd else None)


def _gpu(cells: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """None where the row does not even say which GPU it is about."""
    if not _digits(cells["index"]) or not _UUID.fullmatch(cells["uuid"]):
        return None
    unknown: Dict[str, str] = {}

    def value(field: str, good: bool, convert: Any = str) -> Any:
        if field not in cells:
            unknown[field] = "this nvidia-smi does not tell it"
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
        "name": pattern("name", r"[^\[].*"),
        "bus": pattern("pci.bus_id", r"[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-9]"),
        "memory_total": number("memory.total"),
        "memory_used": number("memory.used"),
        "driver": pattern("driver_version", _VERSION.pattern),
        "persistence": value(
            "persistence_mode", cells.get("persistence_mode") in switch, switch.__getitem__
        ),
        # A card without MIG says [N/A]: that is an answer.
        "mig": False
        if mig in ("[N/A]", "[Not Supported]")
        else value("mig.mode.current", mig in switch, switch.__getitem__),
        "compute_cap": pattern("compute_cap", _VERSION.pattern),
        "unknown": unknown,
    }


def _app(cells: Dict[str, str]) -> Optional[Dict[str, Any]]:
    if not _UUID.fullmatch(cells["gpu_uuid"]) or not _digits(cells["pid"]):
        return None
    name, memory = cells["process_name"], cells["used_memory"]
    if not _digits(memory) and not re.fullmatch(r"\[[^\]]+\]", memory):
        return None
    return {
        "uuid": cells["gpu_uuid"],
        "pid": int(cells["pid"]),
        "instance": None,
        "name": None if name.startswith("[") else name,
        "memory": int(memory) if _digits(memory) else None,
    }


def to_gpus(rows: List[Dict[str, Any]], parents: Dict[str, str]) -> Optional[str]:
    """Give rows of MIG instances the UUID of their GPU; says which instance is not known."""
    lost = None
    for row in rows:
        if row["uuid"].startswith("MIG-"):
            row["instance"] = row["uuid"]
            row["uuid"] = parents.get(row["instance"])
            if row["uuid"] is None:
                lost = "whose instance %s is was not told" % row["instance"]
    return lost


def fill_memory(
    rows: List[Dict[str, Any]], gpus: List[Dict[str, Any]], shown: List[Dict[str, Any]]
) -> None:
    """Take from the table for people the memory that the CSV did not tell."""
    indices = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    told = {(row["gpu"], row["pid"]): row["memory"] for row in shown}
    for row in rows:
        if row["memory"] is None:
            row["memory"] = told.get((indices.get(row["uuid"], -1), row["pid"]))


def _digits(text: str) -> bool:
    return re.fullmatch(r"[0-9]+", text) is not None
