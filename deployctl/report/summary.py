"""A report in a few lines of text: what happened on each host, and the figures that matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.report import unreached
from deployctl.report.columns import columns
from deployctl.report.outcomes import drifted, ended, gap, meaning, now_serving, remarks, serving
from deployctl.steps import registry
from deployctl.steps.delivery import planned_words
from deployctl.steps.identity import MAIN
from deployctl.steps.interface import change_sentence
from deployctl.steps.routers.words import sentence
from deployctl.steps.servers import sleeping

HEADS = ("host", "unit", "wave", "outcome", "serves", "cost")


def lines(document: Mapping[str, Any], width: int | None = None) -> Iterator[str]:
    """The lines of a report, without colour; of several hosts a table first, of `width` characters
    at most."""
    known = registry.steps()
    if len(document["hosts"]) > 1:
        yield from columns([*map(_row, document["hosts"])], HEADS, width, ("unit", "cost"))
        yield ""
    for host in document["hosts"]:
        current = None if host["release"] else host.get("previous")
        release = host["release"] or current or "unknown"
        wave = f"  wave {host['wave']}" if host.get("wave") else ""
        yield f"{host['host']}  {'current ' if current else ''}release {release}{wave}"
        for step in host["steps"]:
            what = f"{step['step']:<11} {step['status']:<10}"
            yield f"  {what} {_seconds(step)}{_detail(step)}".rstrip()
            if drifted(step):
                yield f"    {drifted(step)}"
            yield from (f"    {remark}" for remark in remarks(step))
            if step["step"] in known:
                details = known[step["step"]].details(step["evidence"])
                yield from (f"    {line}" for line in details)
        if host.get("held_back"):
            yield f"  not done: {host['held_back']}"
        if host.get("declined"):
            yield f"  {host['declined']}"
        for delivery in host.get("deliveries") or ():
            if delivery["role"] == "producer":
                yield f"  {planned_words(delivery)}"
        if host["took_up"]:
            yield f"  recovered interrupted run {host['took_up']}"
        if gap(host):
            yield f"  {gap(host)}"
        if host["error"]:
            yield from (f"  {line}" for line in error_lines(host["error"]))
        if now_serving(host):
            yield f"  {now_serving(host)}"
        if host["way_back_error"]:
            yield "  ROLLBACK FAILED: the previous release does not serve"
            yield from (f"  {line}" for line in error_lines(host["way_back_error"]))
    yield f"{document['profile']}: {meaning(document)} ({document['seconds']:.1f} s)"


def _row(host: Mapping[str, Any]) -> dict[str, str]:
    """A host in the table of several."""
    unit = host.get("unit") or ""
    return {
        "host": host["host"],
        "unit": "" if unit == MAIN else unit,
        "wave": str(host.get("wave") or ""),
        "outcome": ended(host),
        "serves": serving(host),
        "cost": gap(host),
    }


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
    known = registry.steps().get(step["step"])
    said = known.sentence(step) if known is not None and step["evidence"] else _between(step)
    reason = str(step.get("reason", "")) if step["status"] in ("unchanged", "skipped") else ""
    if said and reason and known is not None and known.is_gate:
        return f"{reason}: {said}"
    return said or reason


def _between(step: Mapping[str, Any]) -> str:
    """What was done between the steps of a playbook."""
    return sentence(step) or sleeping.sentence(step)


def plan_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A plan in lines: each step, what it would change and why."""
    yield from unreached.each(document, _planned)
    if len(document.get("waves") or ()) > 1:
        yield f"one after the other: {'; '.join(', '.join(wave) for wave in document['waves'])}"
    yield from _exposed(document.get("exposure") or {}, bool(document.get("changes", True)))
    yield _plan_end(document)


def _exposed(exposure: Mapping[str, Any], changes: bool) -> Iterator[str]:
    """What would run and what would leave this machine, by the profile's choice."""
    if exposure.get("programs"):
        yield "programs that would run" + ("" if changes else ", if something were to change")
    for one in exposure.get("programs", ()):
        yield f"  {one['where']}: {one['what']} ({one['named_by']})"
    if exposure.get("variables"):
        yield "variables that would leave this environment"
    for one in exposure.get("variables", ()):
        yield f"  {one['name']} -> {one['to']} ({one['named_by']})"
    yield from (f"warning: {said}" for said in exposure.get("warnings", ()))


def _planned(host: Mapping[str, Any]) -> Iterator[str]:
    current, release = host["current"] or "none", host["release"] or "not known yet"
    wanted = f", wanted {release}" if host.get("for_release", True) else ""
    yield f"{host['host']}  current release {current}{wanted}"
    told: set[str] = set()
    for step in host["steps"]:
        reason = step["reason"]
        if step["status"] == "unknown" and reason in told:
            reason = "for the same reason"
        told.add(reason)
        yield f"  {step['step']:<11} {step['status']:<10} {reason}".rstrip()
        for change in step["changes"]:
            yield f"    {change_sentence(change)}"
        yield from (f"    {remark}" for remark in remarks(step))
    for delivery in host.get("deliveries") or ():
        yield f"  {planned_words(delivery)}"
    if host.get("handover"):
        yield f"  {host['handover']}"


def _plan_end(document: Mapping[str, Any]) -> str:
    hosts = [host for host in document["hosts"] if not host.get("error")]
    blocked = [(host["host"], host["blocked"]) for host in hosts if host["blocked"]]
    if blocked:
        places = ", ".join(f"{step} on {host}" for host, step in blocked)
        return f"blocked: {places} cannot be done, and nothing would be touched there"
    unknown = [f"{', '.join(h['unknown'])} on {h['host']}" for h in hosts if h.get("unknown")]
    if unknown:
        return f"unknown: {'; '.join(unknown)} cannot be planned, and a run would end there"
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
