"""Who holds the GPUs of a host, in lines for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any


def lines(host: str, evidence: Mapping[str, Any]) -> Iterator[str]:
    """The holders in the evidence of `clean`, with verdicts, then what could not be seen."""
    yield f"{host}  GPU {evidence.get('gpu', 'unknown')}"
    for index, memory in (evidence.get("memory_before") or {}).items():
        yield f"  GPU {index}: {'unknown' if memory is None else f'{memory} MiB'} in use"
    if evidence.get("port"):
        yield from _port(evidence["port"])
    holders, concerned = evidence.get("holders") or (), evidence.get("concerned") or ()
    for holder in holders:
        if holder["pid"] in concerned:
            yield f"  {_holder(holder)}"
            yield f"      {holder['why']}"
    others = sum(holder["pid"] not in concerned for holder in holders)
    if others:
        noun = "process" if others == 1 else "processes"
        yield f"  {others} other {noun} of vLLM or on other GPUs"
    for reason in evidence.get("unknown") or ():
        yield f"  not known: {reason}"
    for remark in evidence.get("remarks") or ():
        yield f"  warning: {remark}"


def _port(port: Mapping[str, Any]) -> Iterator[str]:
    if port["listening"] is None:
        yield f"  port {port['port']}: not known: {port['unknown']}"
    elif not port["listening"]:
        yield f"  port {port['port']}: free"
    for holder in port["holders"]:
        told = textwrap.shorten(holder["command"], 200, placeholder=" …") or holder["comm"]
        yield f"  port {port['port']}: held by {holder['pid']}  {told}"
    if port["listening"] and port["unknown"]:
        yield f"  port {port['port']}: {port['unknown']}"


def _holder(holder: Mapping[str, Any]) -> str:
    gpus = "".join(f"  GPU {index}" for index in holder["gpu_indices"])
    memory = "" if holder["memory_mib"] is None else f"  {holder['memory_mib']} MiB"
    place = f"  {holder['container']}" if holder["container"] else ""
    who = f"{holder['verdict']:<8} {holder['pid']:>8}  {holder['user'] or '?'}"
    return f"{who}{place}{gpus}{memory}  {holder['state']}  {holder['command']}"
