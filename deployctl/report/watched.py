"""What is watched, as a table that is drawn again, or as one line for a status bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.report.columns import columns
from deployctl.report.hosts_table import memory, requests

HEADS = (
    *("host", "unit", "state", "release", "tok/s", "run/wait"),
    *("accepted", "lately", "memory", "gates"),
)
LEAST = ("memory", "accepted", "gates", "release")
"""What a narrow terminal does without."""
UNREACHABLE = "unreachable"


def table(document: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """A row for each unit of each host, then why a host cannot be read."""
    rows = [row for host in document["hosts"] for row in _rows(host)]
    alike = len({row["unit"] for row in rows if row.get("unit")}) < 2
    yield from columns(rows, HEADS, width, ("unit", *LEAST) if alike else LEAST)
    for host in document["hosts"]:
        if host["error"]:
            what = str(host["error"]["what"])
            yield what if width is None or len(what) <= width else what[: width - 1] + "…"


def line(document: Mapping[str, Any]) -> str:
    """All hosts in one line: how many are read, their sums, and those that are unreachable."""
    hosts = document["hosts"]
    lost = [host["host"] for host in hosts if _lost(host)]
    units = [unit for host in hosts if not _lost(host) for unit in host["units"].values()]
    parts = [document["profile"], f"{len(hosts) - len(lost)}/{len(hosts)} hosts"]
    rates = [unit["tokens_per_second"] for unit in units if _known(unit, "tokens_per_second")]
    if rates:
        parts.append(f"{sum(rates):.1f} tok/s")
    counts = [unit["requests"] for unit in units if _known(unit, "requests")]
    if counts:
        running, waiting = (sum(one[of] or 0 for one in counts) for of in ("running", "waiting"))
        parts.append(f"{running} running {waiting} waiting")
    lately = [found for unit in units if (found := _length(unit, "lately")) is not None]
    if lately:
        parts.append(f"accepted {min(lately):.2f}")
    gpus = [gpu for host in hosts if not _lost(host) for gpu in host.get("gpus") or ()]
    if gpus:
        parts.append(memory(gpus))
    if lost:
        parts.append(f"{UNREACHABLE}: {', '.join(lost)}")
    return "  ".join(parts)


def _rows(host: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if _lost(host) or not host["units"]:
        yield {"host": host["host"], "state": _state(host)}
        return
    for index, (name, unit) in enumerate(sorted(host["units"].items())):
        yield {
            "host": host["host"],
            "unit": name,
            "state": _alive(unit),
            "release": unit["release"] or "",
            "tok/s": f"{unit['tokens_per_second']:.1f}"
            if _known(unit, "tokens_per_second")
            else "",
            "run/wait": requests(unit.get("requests")),
            "accepted": _figure(_length(unit, "since_start")),
            "lately": _figure(_length(unit, "lately")),
            "memory": memory(host.get("gpus") or ()) if index == 0 else "",
            "gates": _gates(unit),
        }


def _lost(host: Mapping[str, Any]) -> bool:
    return bool(host["error"] or host["late"])


def _state(host: Mapping[str, Any]) -> str:
    if host["error"]:
        return UNREACHABLE
    if host["late"]:
        return f"{UNREACHABLE}, no answer for {host['late']:.0f} s"
    return "connecting" if host["time"] is None else "nothing was started"


def _alive(unit: Mapping[str, Any]) -> str:
    """A unit's state, with what its supervisor saw where it watches."""
    last = (unit.get("liveness") or {}).get("last")
    return f"{unit['state']}, {last['verdict']}" if last else str(unit["state"])


def _known(unit: Mapping[str, Any], figure: str) -> bool:
    return unit.get(figure) is not None


def _length(unit: Mapping[str, Any], since: str) -> float | None:
    found = ((unit.get("accepted") or {}).get(since) or {}).get("mean_acceptance_length")
    return None if found is None else float(found)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _gates(unit: Mapping[str, Any]) -> str:
    found = unit.get("verdicts") or {}
    bad = [f"{gate} {one['verdict']}" for gate, one in found.items() if one["verdict"] != "pass"]
    return ", ".join(bad) or ("pass" if found else "")
