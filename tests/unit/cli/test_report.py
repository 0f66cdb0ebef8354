"""`deployctl report`: kept runs again, as lines, page and document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.errors import UsageError
from deployctl.report import store
from tests.unit.report import documents


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store.save(documents.passed())
    store.save(documents.failed())


def test_the_newest_run_and_its_page() -> None:
    result = CliRunner().invoke(app, ["report"])
    assert result.exit_code == 0
    assert "mean acceptance length 1.15" in result.stdout
    page = store.directory() / "20261130T050000Z-c0ffee.html"
    assert str(page) in result.stderr
    assert "20261130T041511Z-d55a3a" in page.read_text()


def test_a_run_by_its_id_as_the_one_document() -> None:
    run = documents.passed()["run"]
    result = CliRunner().invoke(app, ["report", run, "--json"])
    assert json.loads(result.stdout) == documents.passed()
    # An earlier run's page does not know of later ones.
    assert "c0ffee" not in (store.directory() / f"{run}.html").read_text()


def test_the_list_and_an_unknown_run() -> None:
    result = CliRunner().invoke(app, ["report", "--list"])
    assert result.stdout.splitlines() == [
        "20261130T041511Z-d55a3a  demo  up: deployed",
        "20261130T050000Z-c0ffee  demo  up: failed",
    ]
    result = CliRunner().invoke(app, ["report", "--list", "--json"])
    document = json.loads(result.stdout)
    assert (document["schema"], len(document["runs"])) == ("deployctl.reports/1", 2)
    assert isinstance(CliRunner().invoke(app, ["report", "nope"]).exception, UsageError)


def test_history_passes_over_other_profiles_and_damaged_files() -> None:
    other = documents.passed() | {"profile": "other", "run": "20261130T030000Z-000000"}
    store.save(other)
    (store.directory() / "20261130T020000Z-broken.json").write_text("{")
    assert [one["run"][-6:] for one in store.history("demo")] == ["d55a3a", "c0ffee"]
    assert len(store.history("demo", last=1)) == 1


def test_a_textfile_beside(tmp_path: Path) -> None:
    path = tmp_path / "deployctl.prom"
    assert CliRunner().invoke(app, ["report", "--metrics-file", str(path)]).exit_code == 0
    assert "deployctl_run_exit_code" in path.read_text()


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "[" * 20_000, '{"hosts": [{}]}', '{"schema": "x", "hosts": []}', "\xff"]
)
def test_a_damaged_report_is_said_to_be_and_passed_over(text: str) -> None:
    document = documents.passed()
    for run in ("0", "zz"):
        (store.directory() / f"{run}.json").write_text(text, encoding="latin-1")
    store.save(document)
    assert store.save_page(document).is_file()
    assert len(store.history(document["profile"])) == 2
    done = CliRunner().invoke(app, ["report", "zz"])
    assert isinstance(done.exception, UsageError)
    assert "is damaged" in str(done.exception)


def test_the_newest_run_of_a_profile_by_its_name_or_file(tmp_path: Path) -> None:
    other = {**documents.failed(), "run": "20261201T000000Z-0ther", "profile": "other"}
    store.save(other)
    named = documents.failed()["profile"]
    result = CliRunner().invoke(app, ["report", "-p", named, "--json"])
    assert json.loads(result.stdout) == documents.failed()
    file = tmp_path / "mine.yaml"
    file.write_text("name: other\nextends: demo\n")
    result = CliRunner().invoke(app, ["report", "-p", str(file), "--json"])
    assert json.loads(result.stdout)["run"] == other["run"]
    result = CliRunner().invoke(app, ["report", "-p", "demo-ngram"])
    assert isinstance(result.exception, UsageError) and "demo-ngram" in str(result.exception)
    result = CliRunner().invoke(app, ["report", other["run"], "-p", "other"])
    assert isinstance(result.exception, UsageError)
