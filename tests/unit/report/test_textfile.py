"""The textfile of a run, read back by a Prometheus parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deployctl.errors import UsageError
from deployctl.report.textfile import status_registry, write, write_registry
from tests.unit.report import documents
from tests.unit.report.test_hosts_table import host

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
    on_host = {"profile": "demo", "host": "local", "unit": "server"}
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


def test_the_units_of_one_host_are_kept_apart(tmp_path: Path) -> None:
    report, path = documents.passed(), tmp_path / "deployctl.prom"
    (host,) = report["hosts"]
    report["hosts"] = [{**host, "unit": "blue", "cut_off": 2}, {**host, "unit": "green"}]
    write(report, path)
    found = samples(path)
    on_host = {"profile": "demo", "host": "local"}
    assert found[key("requests_cut_off", unit="blue", **on_host)] == 2
    assert key("requests_cut_off", unit="green", **on_host) not in found
    for unit in ("blue", "green"):
        assert found[key("without_service_seconds", unit=unit, **on_host)] == 41.3


def test_a_status(tmp_path: Path) -> None:
    path = tmp_path / "status.prom"
    liveness = {"restarts": 3}
    one = host("gpu1")
    one["units"]["server"]["liveness"] = liveness
    gone = {"host": "gpu2", "error": {"what": "gone"}}
    unclear = host("gpu3", generates=None, gpus=[{"index": 1, "used": None, "total": 1024}])
    status = {"profile": "demo", "hosts": [one, gone, unclear]}
    write_registry(status_registry(status), path)
    found = samples(path)
    first = {"profile": "demo", "host": "gpu1"}
    assert found[key("status_healthy", unit="server", **first)] == 1
    assert found[key("status_requests", unit="server", state="running", **first)] == 3
    assert found[key("status_unit_hung", unit="server", **first)] == 3
    assert found[key("status_gpu_memory_used_bytes", gpu="0", **first)] == 21504 << 20
    assert found[key("status_host_reached", profile="demo", host="gpu2")] == 0
    third = {"profile": "demo", "host": "gpu3"}
    assert key("status_healthy", unit="server", **third) not in found
    assert key("status_gpu_memory_used_bytes", gpu="1", **third) not in found
    assert found[key("status_gpu_memory_bytes", gpu="1", **third)] == 1 << 30


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write(documents.passed(), tmp_path / "none" / "deployctl.prom")
