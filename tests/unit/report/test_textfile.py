"""The textfile of a run, read back by a Prometheus parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deployctl.errors import UsageError
from deployctl.report.textfile import write
from tests.unit.report import documents

Sample = tuple[str, frozenset[tuple[str, str]]]


def samples(path: Path) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> Sample:
    return f"deployctl_{name}", frozenset(labels.items())


def test_figures_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "deployctl.prom"
    write(documents.passed(), path)
    found = samples(path)
    on_host = {"profile": "demo", "host": "local"}
    assert found[key("mean_acceptance_length", **on_host)] == 7.9
    assert found[key("position_acceptance_rate", position="6", **on_host)] == 0.966
    assert found[key("gate_verdict", gate="acceptance", verdict="pass", **on_host)] == 1
    assert found[key("run_exit_code", profile="demo")] == 0
    assert found[key("run_started_seconds", profile="demo")] == 1796012111
    assert found[key("step_seconds", step="build", status="changed", **on_host)] == 38.2
    assert [file.name for file in tmp_path.iterdir()] == ["deployctl.prom"]


def test_what_is_not_known_has_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "deployctl.prom"
    write(documents.refused(), path)
    names = {name for name, _ in samples(path)}
    assert "deployctl_run_exit_code" in names
    assert not {name for name in names if "acceptance" in name}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write(documents.passed(), tmp_path / "none" / "deployctl.prom")
