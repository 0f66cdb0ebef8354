"""A run's report as a Prometheus textfile, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import write_to_textfile

from deployctl.errors import UsageError
from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.registry import names

Report = Mapping[str, Any]


def registry(report: Report) -> CollectorRegistry:
    """The report's figures as gauges; what is not known has no sample. Times are in seconds."""
    made = CollectorRegistry()
    profile = report["profile"]
    started = datetime.strptime(report["started"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"deployctl_{name}", text, ["profile", *labels], registry=made)

    gauge("run_started_seconds", "When the last run began, unix time.").labels(profile).set(
        started.timestamp()
    )
    gauge("run_seconds", "How long the last run took.").labels(profile).set(report["seconds"])
    gauge("run_exit_code", "Exit code of the last run.").labels(profile).set(report["exit_code"])
    outcome = gauge("run_outcome", "The outcome of the last run, as a label.", "outcome")
    outcome.labels(profile, report["outcome"]).set(1)
    steps = gauge("step_seconds", "How long a step took.", "host", "step", "status")
    length = gauge("mean_acceptance_length", "Tokens per step of the target.", "host")
    rate = gauge("acceptance_rate", "Accepted / drafted tokens.", "host")
    position = gauge("position_acceptance_rate", "Acceptance at a position.", "host", "position")
    verdict = gauge("gate_verdict", "A gate's verdict, as a label.", "host", "gate", "verdict")
    for host in report["hosts"]:
        name = host["host"]
        for step in host["steps"]:
            steps.labels(profile, name, step["step"], step["status"]).set(step["seconds"])
            evidence = step.get("evidence") or {}
            if step["step"] in names("gate") and evidence.get("verdict"):
                verdict.labels(profile, name, step["step"], evidence["verdict"]).set(1)
            if step["step"] != AcceptanceStep.name:
                continue
            if evidence.get("mean_acceptance_length") is not None:
                length.labels(profile, name).set(evidence["mean_acceptance_length"])
            if evidence.get("acceptance_rate") is not None:
                rate.labels(profile, name).set(evidence["acceptance_rate"])
            for index, value in enumerate(evidence.get("per_position") or ()):
                if value is not None:
                    position.labels(profile, name, str(index)).set(value)
    return made


def write(report: Report, path: Path) -> None:
    """Write the textfile whole or not at all; raises `UsageError` where it cannot be written."""
    try:
        write_to_textfile(str(path), registry(report))
    except OSError as error:
        raise UsageError(
            f"--metrics-file {path} cannot be written", str(error), "name a writable file"
        ) from error
