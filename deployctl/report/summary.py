"""A report in a few lines of text: what happened on each host, and the figures that matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.report import unreached
from deployctl.report.measured import bench_lines
from deployctl.report.outcomes import drifted, gap, meaning, now_serving, remarks


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a report, without colour."""
    for host in document["hosts"]:
        release = host["release"] or "unknown"
        yield f"{host['host']}  release {release}"
        for step in host["steps"]:
            what = f"{step['step']:<11} {step['status']:<10}"
            yield f"  {what} {_seconds(step)}{_detail(step)}".rstrip()
            if drifted(step):
                yield f"    {drifted(step)}"
            yield from (f"    {remark}" for remark in remarks(step))
            if step["step"] == "bench" and step["evidence"]:
                yield from (f"    {line}" for line in bench_lines(step["evidence"]))
        if host.get("declined"):
            yield f"  {host['declined']}"
        if host["took_up"]:
            yield f"  took up run {host['took_up']}, which had ended without a word"
        if gap(host):
            yield f"  {gap(host)}"
        if host["error"]:
            yield from (f"  {line}" for line in error_lines(host["error"]))
        if now_serving(host):
            yield f"  {now_serving(host)}"
        if host["way_back_error"]:
            yield "  THE WAY BACK FAILED: the previous release does not serve"
            yield from (f"  {line}" for line in error_lines(host["way_back_error"]))
    yield f"{document['profile']}: {meaning(document)} ({document['seconds']:.1f} s)"


def error_lines(error: Mapping[str, str]) -> Iterator[str]:
    """A failure in three parts: what, why, what to do next."""
    yield f"error: {error['what']}"
    for line in error["why"].splitlines():
        yield f"  why: {line}" if line == error["why"].splitlines()[0] else f"       {line}"
    if error["next"]:
        yield f"  next: {error['next']}"


def _seconds(step: Mapping[str, Any]) -> str:
    return f"{step['seconds']:7.1f} s  " if step["seconds"] >= 0.05 else " " * 11


def _detail(step: Mapping[str, Any]) -> str:
    evidence = step["evidence"]
    if step["step"] == "drafter" and step["status"] == "unchanged":
        return "config.json is as wanted" if evidence.get("sha256") else str(step.get("reason", ""))
    if step["step"] == "drafter" and step.get("changes"):
        # What this run wrote: the evidence tells what differs from upstream, whenever written.
        return ", ".join(_change(change) for change in step["changes"])
    describe = {
        "build": _build,
        "clean": None if step["status"] == "unchanged" else _clean,
        "drafter": _drafter,
        "ready": _ready,
        "smoke": _smoke,
        "acceptance": acceptance_line,
        "lossless": _lossless,
    }.get(step["step"])
    if describe is not None and evidence:
        earlier = step["status"] == "unchanged" and step["step"] in ("smoke", "acceptance")
        return f"{step['reason']}: {describe(evidence)}" if earlier else describe(evidence)
    return str(step.get("reason", "")) if step["status"] in ("unchanged", "skipped") else ""


def _build(evidence: Mapping[str, Any]) -> str:
    commit = evidence.get("commit_installed")
    what = commit[:12] if commit else evidence.get("version_installed") or "unknown version"
    return f"{what} by {evidence.get('strategy', 'unknown strategy')}"


def _clean(evidence: Mapping[str, Any]) -> str:
    stopped = f"{len(evidence.get('stopped') or ())} processes stopped"
    after = evidence.get("memory_after")
    if not after:
        gpu = str(evidence.get("gpu", ""))
        return f"{stopped}, no GPU" if gpu.startswith("absent") else stopped
    before = evidence.get("memory_before") or {}
    course = [f"GPU {i}: {_mib(before.get(i))} -> {_mib(amount)}" for i, amount in after.items()]
    return ", ".join((stopped, *course))


def _mib(amount: int | None) -> str:
    return "unknown" if amount is None else f"{amount} MiB"


def _drafter(evidence: Mapping[str, Any]) -> str:
    changed = evidence.get("changed") or []
    if not changed:
        return "config.json is as wanted"
    return ", ".join(f"{c['key']}: {c['old']} -> {c['new']}" for c in changed)


def _ready(evidence: Mapping[str, Any]) -> str:
    return f"pid {evidence['pid']}" if evidence.get("pid") else ""


def _smoke(evidence: Mapping[str, Any]) -> str:
    checks = evidence.get("checks") or []
    return ", ".join(f"{check['name']}: {check['result']['verdict']}" for check in checks)


def acceptance_line(evidence: Mapping[str, Any]) -> str:
    """A verdict on acceptance with its figures, as far as they are known."""
    length = evidence.get("mean_acceptance_length")
    verdict = evidence.get("verdict", "unknown")
    if length is None:
        return f"{verdict}: mean acceptance length unknown"
    rates = ["-" if r is None else f"{r:.3f}" for r in evidence.get("per_position") or []]
    positions = f", per position {' '.join(rates)}" if rates else ""
    interval = evidence.get("interval")
    span = f" [{interval['low']:.2f}, {interval['high']:.2f}]" if interval else ""
    floor = (evidence.get("gate") or {}).get("floor")
    missed = f" (floor {floor:g})" if verdict == "fail" and floor is not None else ""
    return f"{verdict}: mean acceptance length {length:.2f}{span}{missed}{positions}"


def _lossless(evidence: Mapping[str, Any]) -> str:
    same = f"{evidence['identical']} of {evidence['compared']} answers as without speculation"
    return f"{evidence['verdict']}: {same}, {evidence['tokens']} tokens"


def plan_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A plan in lines: each step, what it would change and why."""
    yield from unreached.each(document, _planned)
    yield _plan_end(document)


def _planned(host: Mapping[str, Any]) -> Iterator[str]:
    current, release = host["current"] or "none", host["release"] or "not known yet"
    yield f"{host['host']}  current release {current}, wanted {release}"
    for step in host["steps"]:
        yield f"  {step['step']:<11} {step['status']:<10} {step['reason']}".rstrip()
        for change in step["changes"]:
            yield f"    {_change(change)}"
        yield from (f"    {remark}" for remark in remarks(step))


def _plan_end(document: Mapping[str, Any]) -> str:
    hosts = [host for host in document["hosts"] if not host.get("error")]
    blocked = [(host["host"], host["blocked"]) for host in hosts if host["blocked"]]
    if blocked:
        places = ", ".join(f"{step} on {host}" for host, step in blocked)
        return f"blocked: {places} cannot be done, and nothing would be touched there"
    if document["changes"]:
        return "there are changes"
    if len(hosts) < len(document["hosts"]):
        return "what would change is not known of every host"
    checks = dict.fromkeys(
        step["step"] for host in hosts for step in host["steps"] if step["status"] == "check"
    )
    return (
        f"nothing to change; to be checked: {', '.join(checks)}" if checks else "nothing to change"
    )


def _change(change: Mapping[str, Any]) -> str:
    why = f"  ({change['why']})" if change["why"] else ""
    if change["old"] is None and change["new"] is None:
        return f"{change['what']}{why}"
    old = "nothing" if change["old"] is None else change["old"]
    new = "nothing" if change["new"] is None else change["new"]
    return f"{change['what']}: {old} -> {new}{why}"
