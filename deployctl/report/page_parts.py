"""What a report's page shows beside its charts, as data for its template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.report.charts import Mark
from deployctl.report.outcomes import ended, gap, serving
from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.build import BuildStep
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.interface import Step
from deployctl.steps.verify import VerifyStep

Entry = Mapping[str, Any]
"""A step's entry in a report."""


@dataclass(frozen=True)
class Table:
    """A table with its title."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def evidence_of(steps: Mapping[str, Entry], step: type[Step]) -> Mapping[str, Any]:
    """What a step measured; nothing where it did not run."""
    found: Mapping[str, Any] = (steps.get(step.name) or {}).get("evidence") or {}
    return found


def headline(host: Mapping[str, Any]) -> str:
    """One line on a host: what acceptance measured, else what failed."""
    for step in host["steps"]:
        evidence = step.get("evidence") or {}
        if (
            step["step"] == AcceptanceStep.name
            and evidence.get("mean_acceptance_length") is not None
        ):
            interval = evidence.get("interval")
            span = f" ({interval['low']:.2f} to {interval['high']:.2f})" if interval else ""
            length = f"{evidence['mean_acceptance_length']:.2f}{span}"
            return f"acceptance {evidence['verdict']}, mean acceptance length {length}"
    error = host.get("error")
    return str(error["what"]) if error else ""


def releases(host: Mapping[str, Any]) -> str:
    """Which release was made or proven, and which one was before."""
    before = f", before: {host['previous']}" if host.get("previous") else ""
    restored = "; the previous release was restored" if host.get("restored") else ""
    away = f"; {gap(host)}" if gap(host) else ""
    return f"release {host.get('release') or 'unknown'}{before}{restored}{away}"


def hosts(report: Mapping[str, Any]) -> Table | None:
    """Which release serves where, and what the run cost there; None for an only host."""
    listed = report["hosts"]
    if len(listed) < 2:
        return None
    rows = [
        [
            host["host"],
            *[host.get("unit") or "", str(host.get("wave") or "")],
            ended(host),
            serving(host),
            gap(host),
        ]
        for host in listed
    ]
    heads = ["host", "unit", "wave", "outcome", "serves", "cost"]
    kept = [i for i, _ in enumerate(heads) if i not in (1, 2) or len({row[i] for row in rows}) > 1]
    return Table("Hosts", [heads[i] for i in kept], [[row[i] for i in kept] for row in rows])


def figures(evidence: Mapping[str, Any]) -> dict[str, str]:
    """The figures of acceptance that people ask for first."""
    interval = evidence.get("interval")
    span = "unknown"
    if interval:
        confidence = f"{100 * interval['confidence']:.3g}%"
        span = f"{interval['low']:.2f} to {interval['high']:.2f} at {confidence}"
    other = evidence.get("other_traffic") or {}
    return {
        "mean acceptance length": two(evidence.get("mean_acceptance_length")),
        "interval": span,
        "acceptance rate": percent(evidence.get("acceptance_rate")),
        "drafts": shown(evidence.get("drafts")),
        "requests": shown(evidence.get("requests")),
        "other traffic": f"{other['tokens']} tokens" if other.get("tokens") else "none seen",
    }


def marks(evidence: Mapping[str, Any]) -> list[Mark]:
    """Our length and what it is compared with, as marks of a chart."""
    interval = evidence.get("interval") or {}
    length = evidence["mean_acceptance_length"]
    made = [Mark("this run", length, "ours", interval.get("low"), interval.get("high"))]
    good = evidence.get("last_good")
    if good:
        made.append(Mark("last good release", good["mean_acceptance_length"], "good"))
    made += [
        Mark(f"published [{number}]", reference["mean_acceptance_length"], "reference")
        for number, reference in enumerate(evidence.get("references") or (), 1)
    ]
    return made


def references(evidence: Mapping[str, Any]) -> list[str]:
    """Published figures with their sources; they are others' and not ours."""
    listed = evidence.get("references") or []
    return [
        f"[{number}] {one['mean_acceptance_length']:.2f}, {one['source']}"
        for number, one in enumerate(listed, 1)
    ]


def diagnosis(evidence: Mapping[str, Any]) -> Table | None:
    """Likely causes of a bad acceptance, each with the result of its check."""
    causes = evidence.get("diagnosis") or []
    rows = [[one["result"], one["cause"], one["reason"]] for one in causes]
    return Table("Diagnosis", ["check", "cause", "reason"], rows) if rows else None


def smoke(evidence: Mapping[str, Any]) -> Table | None:
    """Each smoke request, its verdict and its pace."""
    rows = []
    for check in evidence.get("checks") or []:
        result = check["result"]
        said = "; ".join([*result["problems"], *result["notes"]])
        pace = result.get("tokens_per_second")
        speed = "" if pace is None else f"{pace:.0f} tokens/s"
        rows.append([check["name"], result["verdict"], speed, said])
    return Table("Smoke", ["request", "verdict", "speed", "remarks"], rows) if rows else None


def answers(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was answered to each smoke request."""
    found = ((check["name"], check["result"]) for check in evidence.get("checks") or [])
    return [(name, result["content"]) for name, result in found if result.get("content")]


def lossless(evidence: Mapping[str, Any]) -> dict[str, Any] | None:
    """Answers with and without speculation, and where they part."""
    if not evidence:
        return None
    said = f"{evidence['identical']} of {evidence['compared']} answers are the same"
    first, rows = evidence.get("first_difference"), []
    if first:
        where = f"{first['unit']} {first['at']} of prompt {first['prompt']}"
        rows = [[where, first["speculative"], first["plain"]]]
    return {
        "verdict": f"{evidence['verdict']}: {said}, {evidence['tokens']} tokens.",
        "head": ["first difference", "with", "without"],
        "rows": rows,
        "caveat": evidence.get("caveat"),
    }


def bench(evidence: Mapping[str, Any]) -> Table | None:
    """Speed by concurrency, with speculation and without, beside acceptance."""
    if not evidence:
        return None
    slow = {level["concurrency"]: level for level in evidence.get("plain") or ()}
    gain = {one["concurrency"]: one["speed_up"] for one in evidence.get("speed_up") or ()}
    rows = []
    for level in evidence["levels"]:
        at = level["concurrency"]
        rows.append(
            [
                str(at),
                two(level["tokens_per_second"]),
                two(slow[at]["tokens_per_second"]) if at in slow else "not measured",
                f"{gain[at]:.2f}" if at in gain else "",
                _milliseconds(level["first_token"]),
                _milliseconds(level["per_output_token"]),
                two(level["mean_acceptance_length"]),
            ]
        )
    head = ["at once", "tokens/s", "without", "times", "first token", "per token", "length"]
    return Table("Speed", head, rows)


def _milliseconds(spread: Mapping[str, float] | None) -> str:
    return "unknown" if spread is None else f"{spread['p50'] * 1000:.1f} ms"


def config(steps: Mapping[str, Entry]) -> list[Table]:
    """What was changed in the drafter's config.json, old beside new."""
    changed = evidence_of(steps, DrafterStep).get("changed") or []
    wrong = evidence_of(steps, AcceptanceStep).get("config_differences") or []
    made = [[one["key"], as_json(one["old"]), as_json(one["new"])] for one in changed]
    used = [[one["key"], as_json(one["actual"]), as_json(one["wanted"])] for one in wrong]
    tables = [
        Table("Drafter config", ["key", "was", "is"], made),
        Table("Drafter config in use", ["key", "is", "wanted"], used),
    ]
    return [table for table in tables if table.rows]


def fixes(steps: Mapping[str, Entry]) -> Table | None:
    """Known defects of vLLM and whether this build has their fixes."""
    found = evidence_of(steps, VerifyStep).get("fixes") or []
    rows = [[one["fix"], one["verdict"]] for one in found]
    return Table("Fixes", ["fix", "in this build"], rows) if rows else None


def versions(steps: Mapping[str, Entry], acceptance: Mapping[str, Any]) -> Table | None:
    """What was asked for, installed and answering."""
    build = evidence_of(steps, BuildStep)
    server = acceptance.get("server") or {}
    named = {
        "commit requested": build.get("commit_requested"),
        "commit installed": build.get("commit_installed"),
        "commit imported": build.get("commit_imported"),
        "version installed": build.get("version_installed"),
        "strategy": build.get("strategy"),
        "version that answers": server.get("version"),
        "model runner": server.get("runner"),
    }
    rows = [[name, str(value)] for name, value in named.items() if value is not None]
    return Table("Versions", ["what", "value"], rows) if rows else None


def past(report: Mapping[str, Any]) -> dict[str, Any]:
    """A run as a line of history: its outcome and what acceptance measured."""
    found: dict[str, Any] = {"length": None, "verdict": "", "most": 2.0}
    for host in report["hosts"]:
        for step in host["steps"]:
            evidence = step.get("evidence") or {}
            if step["step"] == AcceptanceStep.name and evidence.get("verdict"):
                found["length"] = evidence.get("mean_acceptance_length")
                found["verdict"] = evidence["verdict"]
                found["most"] = len(evidence.get("per_position") or ()) + 1.0
    names = ("run", "playbook", "outcome")
    return found | {name: str(report.get(name, "")) for name in names}


def two(value: float | None) -> str:
    """A number with two digits, or that it is not known."""
    return "unknown" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return "unknown" if value is None else f"{value:.1%}"


def shown(value: object) -> str:
    """A value, or that it is not known."""
    return "unknown" if value is None else str(value)


def as_json(value: object) -> str:
    """A configuration value as it stands in a file."""
    return "absent" if value is None else json.dumps(value)
