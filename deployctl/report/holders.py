"""Who holds the GPUs of a host, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines(host: str, evidence: Mapping[str, Any]) -> Iterator[str]:
    """The holders in the evidence of `clean`, with verdicts, then what could not be seen."""
    yield f"{host}  GPU {evidence.get('gpu', 'unknown')}"
    for index, memory in (evidence.get("memory_before") or {}).items():
        yield f"  GPU {index}: {'unknown' if memory is None else f'{memory} MiB'} in use"
    for holder in evidence.get("holders") or ():
        yield f"  {_holder(holder)}"
        yield f"      {holder['why']}"
    for reason in evidence.get("unknown") or ():
        yield f"  not known: {reason}"


def _holder(holder: Mapping[str, Any]) -> str:
    gpus = "".join(f"  GPU {index}" for index in holder["gpu_indices"])
    memory = "" if holder["memory_mib"] is None else f"  {holder['memory_mib']} MiB"
    place = f"  {holder['container']}" if holder["container"] else ""
    who = f"{holder['verdict']:<8} {holder['pid']:>8}  {holder['user'] or '?'}"
    return f"{who}{place}{gpus}{memory}  {holder['state']}  {holder['command']}"
