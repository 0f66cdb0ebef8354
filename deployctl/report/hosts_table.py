"""The status of many hosts: a table, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from deployctl.report.columns import columns

Host = Mapping[str, Any]
HEADS = ("host", "unit", "state", "release", "since", "run/wait", "memory", "gates")
LEAST = ("since", "memory", "unit")
"""What a narrow terminal does without."""
UNKNOWN = "unknown"


def table(hosts: Sequence[Host], states: Sequence[str], width: int | None) -> Iterator[str]:
    """A row for each unit of each host; `states` are the hosts' states in a word or two."""
    rows = [row for host, state in zip(hosts, states, strict=True) for row in _rows(host, state)]
    units = {row.get("unit") for row in rows if row.get("unit")}
    if len(units) < 2:
        rows = [{**row, "unit": ""} for row in rows]
    yield from columns(rows, HEADS, width, LEAST)


def _rows(host: Host, state: str) -> Iterator[dict[str, str]]:
    if host.get("error"):
        yield {"host": host["host"], "state": UNKNOWN}
        return
    own = unit_of(host)
    units = {own: {}, **(host.get("units") or {})}
    for unit in (own, *sorted(set(units) - {own})):
        row = {"host": host["host"], "unit": unit, **_of_unit(units[unit])}
        if unit == own:
            row |= {"state": state, "memory": _memory(host), "gates": gates(host)}
            row["release"] = host["serving"] or "none"
        yield row


def unit_of(host: Host) -> str:
    """The unit that a host's status is about, by its short name."""
    named = [unit for unit in host.get("units") or () if host["unit"].endswith(f".{unit}")]
    return named[0] if named else "server"


def _of_unit(unit: Mapping[str, Any]) -> dict[str, str]:
    since = unit.get("since")
    return {
        "state": unit.get("state") or UNKNOWN,
        "release": unit.get("release") or "",
        "since": f"{datetime.fromtimestamp(since, UTC):%m-%d %H:%MZ}" if since else "",
        "run/wait": requests(unit.get("requests")),
    }


def requests(found: Mapping[str, Any] | None) -> str:
    """Requests that run and wait, as `3/0`; empty where a unit does not count them."""
    if not found:
        return ""
    return "/".join(
        "?" if found[one] is None else str(found[one]) for one in ("running", "waiting")
    )


def _memory(host: Host) -> str:
    return memory(host["gpus"]) if host.get("gpus") is not None else UNKNOWN


def memory(gpus: Sequence[Mapping[str, Any]]) -> str:
    """The memory of several GPUs together, in GiB; empty without a GPU."""
    if not gpus:
        return ""
    if any(gpu["used"] is None or gpu["total"] is None for gpu in gpus):
        return UNKNOWN
    used, total = (sum(gpu[one] for gpu in gpus) / 1024 for one in ("used", "total"))
    return f"{used:.1f}/{total:.1f}G"


def gates(host: Host) -> str:
    """The last verdicts of a host's gates: those that did not pass, else `pass`."""
    found = host.get("verdicts") or {}
    bad = [f"{gate} {one['verdict']}" for gate, one in found.items() if one["verdict"] != "pass"]
    old = any(not one["this_process"] for one in found.values()) and host.get("pid")
    said = ", ".join(bad) or ("pass" if found else "")
    return f"{said} (earlier process)" if said and old else said


def differences(hosts: Sequence[Host]) -> Iterator[str]:
    """What is not the same on all hosts, each value with the hosts that have it."""
    asked = [host for host in hosts if not host.get("error")]
    for what, value in _COMPARED.items():
        found: dict[str, list[str]] = {}
        for host in asked:
            found.setdefault(value(host), []).append(host["host"])
        if len(found) > 1:
            parts = (f"{one} on {', '.join(names)}" for one, names in found.items())
            yield f"{what} differs: {'; '.join(parts)}"


def _last_run(host: Host) -> str:
    last = host.get("last_run")
    return f"{last.get('playbook')} {last['outcome']}" if last else "no run"


_COMPARED: dict[str, Callable[[Host], str]] = {
    "release": lambda host: host["serving"] or "none",
    "current": lambda host: host["current"] or "none",
    "last run": _last_run,
    "liveness": lambda host: "on" if host.get("liveness") else "off",
}
