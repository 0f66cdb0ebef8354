"""Kept wheels, and jobs that were ended, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.report import unreached

MIB = 1 << 20


def wheel_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Every kept wheel, with who uses it, and the jobs that run."""
    return unreached.each(document, _wheels)


def _wheels(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"{host['host']}: {len(host['wheels'])} wheels kept"
    for wheel in host["wheels"]:
        used = "used by " + ", ".join(wheel["used_by"]) if wheel["used_by"] else "not in use"
        whole = "" if wheel["whole"] else ", damaged"
        what = f"{wheel['key']}  {str(wheel['commit'])[:12]}  {wheel['strategy']}"
        yield f"  {what}  {wheel['size'] / MIB:.1f} MiB  {used}{whole}"
    for job in host["running"]:
        yield f"  {job}  runs"


def pruned_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """How many wheels went, and how much stays."""
    return unreached.each(document, _pruned)


def _pruned(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"{host['host']}: {len(host['removed'])} removed, {host['size'] / MIB:.1f} MiB kept"


def job_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What became of a job that was to end."""
    return unreached.each(document, _job)


def _job(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"{host['host']}: {host['job']}: {_ended(host)}"


def _ended(job: Mapping[str, Any]) -> str:
    if job["members"]:
        return f"these processes do not end: {', '.join(map(str, job['members']))}"
    return "stopped" if job["was"] == "running" else f"it did not run: {job['state']}"
