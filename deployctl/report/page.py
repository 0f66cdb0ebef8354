"""A run's report as one page: no network, no script, light and dark.

Everything comes from the report document (`report.document`), so that the page of an old run can
be made again, and says what its JSON says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from deployctl.report import charts, page_parts, printable
from deployctl.report.outcomes import drifted, meaning, remarks
from deployctl.report.page_parts import Table
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
    package = __name__.rpartition(".")[0]
    template = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html.j2")
    title = f"{report['profile']}: {report['outcome']} (deployctl run {report['run']})"
    when = f"{report['playbook']}, {report['started']}, {report['seconds']:.1f} s"
    lines = [(host["host"], page_parts.headline(host)) for host in report["hosts"]]
    return template.render(
        title=title,
        style=Markup(files(package).joinpath("page.css").read_text("utf-8")),
        tone=TONES.get(report["outcome"], "unsure"),
        profile=report["profile"],
        meaning=meaning(report),
        lines=[f"{name}: {line}" for name, line in lines if line],
        run=f"run {report['run']}, {when}, exit {report['exit_code']}",
        hosts_table=page_parts.hosts(report),
        hosts=[_host(host) for host in report["hosts"]],
        schema=report["schema"],
        **_history(report, history),
    )


def _printable(value: object) -> object:
    return value if isinstance(value, Markup) else printable.block(str(value))


def _host(host: Mapping[str, Any]) -> dict[str, Any]:
    steps = {step["step"]: step for step in host["steps"]}
    measured = page_parts.evidence_of(steps, AcceptanceStep)
    smoke = page_parts.evidence_of(steps, SmokeStep)
    warned = [[step["step"], remark] for step in host["steps"] for remark in remarks(step)]
    rows = [
        [step["step"], step["status"], f"{step['seconds']:.1f} s", step.get("reason", "")]
        for step in host["steps"]
    ]
    return {
        "name": host["host"],
        "releases": page_parts.releases(host),
        "way_back": host.get("way_back_error"),
        "error": host.get("error"),
        "drift": [*dict.fromkeys(text for step in host["steps"] if (text := drifted(step)))],
        "remarks": Table("Warnings", ["step", "what"], warned) if warned else None,
        AcceptanceStep.name: _acceptance(measured, host["host"])
        if measured.get("verdict")
        else None,
        SmokeStep.name: page_parts.smoke(smoke),
        "answers": page_parts.answers(smoke),
        LosslessStep.name: page_parts.lossless(page_parts.evidence_of(steps, LosslessStep)),
        BenchStep.name: page_parts.bench(page_parts.evidence_of(steps, BenchStep)),
        "timeline": charts.markup(charts.timeline(host["steps"], host["host"])),
        # Again as a table, for those who do not see it.
        "steps": Table("Steps", ["step", "status", "time", "why"], rows),
        "tables": [
            *page_parts.config(steps),
            page_parts.fixes(steps),
            page_parts.versions(steps, measured),
        ],
    }


def _acceptance(evidence: Mapping[str, Any], host: str) -> dict[str, Any]:
    rates = evidence.get("per_position") or []
    last_good = evidence.get("last_good") or {}
    drawn: list[tuple[Markup, str]] = []
    if rates:
        caption = "Share of drafts whose token at this position was accepted."
        if last_good:
            caption += f" Dashed: the last good release, {last_good['release']}."
        chart = charts.positions(rates, last_good.get("per_position") or (), host)
        drawn.append((charts.markup(chart), caption))
    if evidence.get("mean_acceptance_length") is not None:
        marks = page_parts.marks(evidence)
        most = max(len(rates) + 1.0, *(mark.value for mark in marks), 2.0)
        floor = (evidence.get("gate") or {}).get("floor")
        chart = charts.lengths(marks, floor, most)
        caption = "Ours with its interval; dashed: the floor of the gate."
        drawn.append((charts.markup(chart), caption))
    return {
        "verdict": f"{evidence['verdict']}: {'; '.join(evidence.get('reasons') or ())}",
        "figures": page_parts.figures(evidence),
        "charts": drawn,
        "references": page_parts.references(evidence),
        "diagnosis": page_parts.diagnosis(evidence),
    }


def _history(report: Report, history: Sequence[Report]) -> dict[str, Any]:
    runs = [page_parts.past(one) for one in [*history, report]][-RUNS_SHOWN:]
    if len(runs) < 2:
        return {"history": None, "history_chart": None}
    rows = [
        [run["run"], run["playbook"], run["outcome"], run["verdict"], page_parts.two(run["length"])]
        for run in reversed(runs)
    ]
    most = max((run["most"] for run in runs), default=2.0)
    measured = any(run["length"] for run in runs)
    head = ["run", "playbook", "outcome", AcceptanceStep.name, "length"]
    return {
        "history": Table("Last runs", head, rows),
        "history_chart": charts.markup(charts.history(runs, most)) if measured else None,
    }
