"""A run's report as one page: no network, no script, light and dark.

Everything comes from the report document (`report.document`), so that the page of an old run can
be made again, and says what its JSON says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from deployctl.report import charts, page_parts
from deployctl.report.markup import Child, Node, document, element
from deployctl.report.outcomes import meaning, remarks
from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.bench import BenchStep
from deployctl.steps.lossless import LosslessStep
from deployctl.steps.smoke import SmokeStep

Report = Mapping[str, Any]
TONES = {
    "deployed": "ok",
    "changed": "ok",
    "unchanged": "ok",
    "passed": "ok",
    "failed": "bad",
    "rolled-back": "bad",
}
RUNS_SHOWN = 20


def page(report: Report, history: Sequence[Report] = ()) -> str:
    """The page of a report; `history` are reports of earlier runs, oldest first."""
    style = files("deployctl.report").joinpath("page.css").read_text("utf-8")
    title = f"{report['profile']}: {report['outcome']}"
    return document(
        f"{title} (deployctl run {report['run']})",
        style,
        element(
            "main",
            _verdict(report),
            [_host(host) for host in report["hosts"]],
            _history(report, history),
            _provenance(report),
        ),
    )


def _verdict(report: Report) -> Node:
    """The run in one line, and what each host's gate measured."""
    tone = TONES.get(report["outcome"], "unsure")
    lines: list[Child] = [
        element("p", f"{host['host']}: {line}")
        for host in report["hosts"]
        if (line := page_parts.headline(host))
    ]
    when = f"{report['playbook']}, {report['started']}, {report['seconds']:.1f} s"
    return element(
        "header",
        element("h1", f"{report['profile']}: {meaning(report)}"),
        lines,
        element("p", f"run {report['run']}, {when}, exit {report['exit_code']}", class_="soft"),
        class_=f"verdict {tone}",
    )


def _host(host: Mapping[str, Any]) -> Node:
    steps = {step["step"]: step for step in host["steps"]}
    acceptance = page_parts.evidence_of(steps, AcceptanceStep)
    return element(
        "section",
        element("h2", f"Host {host['host']}"),
        element("p", page_parts.releases(host), class_="soft"),
        page_parts.failures(host),
        _remarks(host),
        _acceptance(acceptance, host["host"]) if acceptance.get("verdict") else None,
        page_parts.smoke(page_parts.evidence_of(steps, SmokeStep)),
        page_parts.lossless(page_parts.evidence_of(steps, LosslessStep)),
        page_parts.bench(page_parts.evidence_of(steps, BenchStep)),
        _steps(host),
        page_parts.config(steps),
        page_parts.fixes(steps),
        page_parts.versions(steps, acceptance),
        class_="card",
    )


def _remarks(host: Mapping[str, Any]) -> list[Child]:
    found = [[step["step"], remark] for step in host["steps"] for remark in remarks(step)]
    if not found:
        return []
    return [element("h3", "Warnings"), page_parts.table(["step", "what"], found)]


def _acceptance(evidence: Mapping[str, Any], host: str) -> list[Child]:
    rates = evidence.get("per_position") or []
    length = evidence.get("mean_acceptance_length")
    parts: list[Child] = [
        element("h3", "Acceptance of the drafter"),
        element("p", f"{evidence['verdict']}: {'; '.join(evidence.get('reasons') or ())}"),
        page_parts.figures(evidence),
    ]
    last_good = evidence.get("last_good") or {}
    if rates:
        caption = "Share of drafts whose token at this position was accepted."
        if last_good:
            caption += f" Dashed: the last good release, {last_good['release']}."
        chart = charts.positions(rates, last_good.get("per_position") or (), host)
        parts.append(element("figure", chart, element("figcaption", caption)))
    if length is not None:
        marks = page_parts.marks(evidence)
        most = max(len(rates) + 1.0, *(mark.value for mark in marks), 2.0)
        floor = (evidence.get("gate") or {}).get("floor")
        caption = "Ours with its interval; dashed: the floor of the gate."
        chart = charts.lengths(marks, floor, most)
        parts.append(element("figure", chart, element("figcaption", caption)))
    return [*parts, page_parts.references(evidence), *page_parts.diagnosis(evidence)]


def _steps(host: Mapping[str, Any]) -> list[Child]:
    """The steps as a timeline, and again as a table for those who do not see it."""
    rows = [
        [step["step"], step["status"], f"{step['seconds']:.1f} s", step.get("reason", "")]
        for step in host["steps"]
    ]
    return [
        element("h3", "Steps"),
        element("figure", charts.timeline(host["steps"], host["host"])),
        element(
            "details",
            element("summary", "Steps as a table"),
            page_parts.table(["step", "status", "time", "why"], rows),
        ),
    ]


def _history(report: Report, history: Sequence[Report]) -> Node | None:
    runs = [page_parts.past(one) for one in [*history, report]][-RUNS_SHOWN:]
    if len(runs) < 2:
        return None
    rows = [
        [run["run"], run["playbook"], run["outcome"], run["verdict"], page_parts.two(run["length"])]
        for run in reversed(runs)
    ]
    most = max((run["most"] for run in runs), default=2.0)
    drawn = charts.history(runs, most) if any(run["length"] for run in runs) else None
    return element(
        "section",
        element("h2", "Last runs"),
        element("figure", drawn) if drawn is not None else None,
        page_parts.table(["run", "playbook", "outcome", AcceptanceStep.name, "length"], rows),
        class_="card",
    )


def _provenance(report: Report) -> Node:
    return element(
        "footer",
        element("p", f"generated by deployctl from {report['schema']}", class_="soft"),
    )
