"""A run's report, or a status, as a Prometheus textfile for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import write_to_textfile

from deployctl.errors import UsageError
from deployctl.report.hosts_table import unit_of
from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.identity import MAIN
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
    at = ("host", "unit")
    steps = gauge("step_seconds", "How long a step took.", *at, "step", "status")
    length = gauge("mean_acceptance_length", "Tokens per step of the target.", *at)
    rate = gauge("acceptance_rate", "Accepted / drafted tokens.", *at)
    position = gauge("position_acceptance_rate", "Acceptance at a position.", *at, "position")
    verdict = gauge("gate_verdict", "A gate's verdict, as a label.", *at, "gate", "verdict")
    away = gauge("without_service_seconds", "How long nothing served in the last run.", *at)
    cut = gauge("requests_cut_off", "Requests that the last run cut off.", *at)
    for host in report["hosts"]:
        where = (profile, host["host"], host.get("unit") or MAIN)
        if host.get("without_service") is not None:
            away.labels(*where).set(host["without_service"])
        if host.get("cut_off") is not None:
            cut.labels(*where).set(host["cut_off"])
        for step in host["steps"]:
            steps.labels(*where, step["step"], step["status"]).set(step["seconds"])
            evidence = step.get("evidence") or {}
            if step["step"] in names("gate") and evidence.get("verdict"):
                verdict.labels(*where, step["step"], evidence["verdict"]).set(1)
            if step["step"] != AcceptanceStep.name:
                continue
            if evidence.get("mean_acceptance_length") is not None:
                length.labels(*where).set(evidence["mean_acceptance_length"])
            if evidence.get("acceptance_rate") is not None:
                rate.labels(*where).set(evidence["acceptance_rate"])
            for index, value in enumerate(evidence.get("per_position") or ()):
                if value is not None:
                    position.labels(*where, str(index)).set(value)
    return made


def status_registry(status: Mapping[str, Any]) -> CollectorRegistry:
    """A status as gauges, for each host and unit; what is not known has no sample."""
    made = CollectorRegistry()
    profile = status["profile"]

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        labels = ("profile", "host", *labels)
        return Gauge(f"deployctl_status_{name}", text, labels, registry=made)

    reached = gauge("host_reached", "Whether the host could be asked.")
    healthy = gauge("healthy", "Whether what serves generates, as a completion showed.", "unit")
    running = gauge("unit_running", "Whether the unit runs.", "unit")
    since = gauge("unit_started_seconds", "When its process began, unix time.", "unit")
    restarts = gauge("unit_restarts", "Restarts by its supervisor since its start.", "unit")
    hung = gauge("unit_hung", "Those because it answered no more.", "unit")
    requests = gauge("requests", "Requests in it, by its own gauges.", "unit", "state")
    used = gauge("gpu_memory_used_bytes", "Memory in use.", "gpu")
    total = gauge("gpu_memory_bytes", "Memory of the GPU.", "gpu")
    for host in status["hosts"]:
        where = (profile, host["host"])
        reached.labels(*where).set(not host.get("error"))
        if host.get("error"):
            continue
        if host.get("generates") is not None or not host["pid"]:
            healthy.labels(*where, unit_of(host)).set(host["healthy"])
        for gpu in host.get("gpus") or ():
            for one, mib in ((used, gpu["used"]), (total, gpu["total"])):
                if mib is not None:
                    one.labels(*where, str(gpu["index"])).set(mib << 20)
        for name, unit in (host.get("units") or {}).items():
            running.labels(*where, name).set(unit["state"] == "running")
            restarts.labels(*where, name).set(unit["restarts"])
            if unit["since"]:
                since.labels(*where, name).set(unit["since"])
            if unit["liveness"]:
                hung.labels(*where, name).set(unit["liveness"]["restarts"])
            for state, count in (unit["requests"] or {}).items():
                if count is not None:
                    requests.labels(*where, name, state).set(count)
    return made


def write(report: Report, path: Path) -> None:
    """Write a run's textfile; as `write_registry` does."""
    write_registry(registry(report), path)


def write_registry(made: CollectorRegistry, path: Path) -> None:
    """Write a textfile whole or not at all; raises `UsageError` where it cannot be written."""
    try:
        write_to_textfile(str(path), made)
    except OSError as error:
        raise UsageError(
            f"--metrics-file {path} cannot be written", str(error), "name a writable file"
        ) from error
