"""`deployctl acceptance` offline, and both checks on a server that only misbehaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.errors import NotReady, UsageError
from tests.unit.vllm.loopback import respond, serving

CASES = Path(__file__).parents[2] / "cases"
LOGS, METRICS = CASES / "logs", CASES / "metrics"
SPELLINGS = (LOGS / "specdec_formats_by_version.txt").read_text().splitlines()


def acceptance(*arguments: str | Path) -> tuple[int, dict[str, object]]:
    """Exit code and evidence."""
    result = CliRunner().invoke(app, ["acceptance", *map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout)


def log_of(folder: Path, *names: str) -> Path:
    lines = [
        SPELLINGS[next(i for i, x in enumerate(SPELLINGS) if x.startswith(f"# {name} ")) + 1]
        for name in names
    ]
    path = folder / "server.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_an_idle_log_is_no_data(tmp_path: Path) -> None:
    code, found = acceptance("--log", log_of(tmp_path, "F1", "F7"))
    assert code == 11
    assert (found["verdict"], found["mean_acceptance_length"]) == ("no-data", None)
    assert (found["acceptance_rate"], found["reasons"]) == (
        None,
        ["no traffic measured: nothing was drafted"],
    )


def test_one_line_gives_exactly_its_numbers(tmp_path: Path) -> None:
    code, found = acceptance("--log", log_of(tmp_path, "F1", "F3", "F7", "F8"))
    assert code == 11
    assert found["verdict"] == "too-few-drafts"
    assert (found["accepted_tokens"], found["draft_tokens"]) == (44, 161)
    assert found["mean_acceptance_length"] == 2.91
    assert found["acceptance_rate"] == pytest.approx(0.273, abs=0.0005)
    assert found["per_position"] == [0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043]
    assert found["source"] == "log"


def test_a_session_near_zero_fails_a_floor() -> None:
    code, found = acceptance(
        "--log", LOGS / "near_zero_acceptance_session.txt", "--min-length", "2"
    )
    assert (code, found["verdict"], found["drafts"]) == (9, "fail", None)


def test_two_readings() -> None:
    nothing = CASES / "vllm_cpu" / "metrics-0.32.0-ngram.txt"
    code, found = acceptance("--metrics", nothing, nothing)
    assert (code, found["verdict"], found["drafts"]) == (11, "no-data", 0)


def test_a_restart_between_two_readings_is_unknown() -> None:
    code, found = acceptance(
        "--metrics",
        METRICS / "pair_counter_reset_before.prom.txt",
        METRICS / "pair_counter_reset_after.prom.txt",
    )
    assert code == 11
    assert found["verdict"] == "unknown"
    assert found["reasons"] == ["counters went backwards, the server restarted, acceptance unknown"]
    assert found["mean_acceptance_length"] is None


def test_a_server_without_speculation_is_unknown() -> None:
    plain = CASES / "vllm_cpu" / "metrics-0.32.0-plain.txt"
    code, found = acceptance("--metrics", plain, plain)
    assert (code, found["verdict"]) == (11, "unknown")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--log", "a", "--url", "http://127.0.0.1:1"],
        ["--log", "/nonexistent/server.log"],
    ],
)
def test_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["acceptance", *arguments])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize("command", ["smoke", "acceptance", "bench"])
@pytest.mark.parametrize("model", [[], ["--model", "m"]])
def test_nothing_serves_at_a_dead_port(command: str, model: list[str]) -> None:
    arguments = [command, "--url", "http://127.0.0.1:1", *model, "--json"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, NotReady)
    assert "nothing serves" in result.exception.what
    document = json.loads(result.stdout)
    assert (document["exit_code"], document["hosts"]) == (7, [])


def test_a_web_page_is_not_printed() -> None:
    page = b"<!DOCTYPE html>\n<html><title>404</title>\n<p>nothing here</p></html>"
    with serving(respond("404 Not Found", page)) as url:
        result = CliRunner().invoke(app, ["smoke", "--url", url])
    assert isinstance(result.exception, UsageError)
    assert result.exception.what.endswith("HTTP 404: (a web page, not an API's answer)")
    assert "\n" not in result.exception.what


def test_a_log_on_stdin(tmp_path: Path) -> None:
    path = log_of(tmp_path, "F1", "F3", "F7", "F8")
    arguments = ["acceptance", "--log", "-", "--json"]
    with path.open() as log:
        done = subprocess.run(
            [sys.executable, "-m", "deployctl", *arguments],
            stdin=log,
            capture_output=True,
            text=True,
            timeout=300,
        )
    found = json.loads(done.stdout)
    assert found == {"schema": "deployctl.acceptance/1", **acceptance("--log", path)[1]}
    assert found["mean_acceptance_length"] == 2.91


def test_smoke_of_a_server_that_is_down_for_requests() -> None:
    with serving(respond("503 Service Unavailable", b"engine dead")) as url:
        result = CliRunner().invoke(app, ["smoke", "--url", url, "--model", "m", "--json"])
    assert result.exit_code == 8
    found = json.loads(result.stdout)
    assert (found["schema"], found["verdict"]) == ("deployctl.smoke/1", "dead")
    assert "engine dead" in found["checks"][0]["result"]["problems"][0]


def test_a_key_must_be_set_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    arguments = ["smoke", "--url", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH_KEY"]
    assert isinstance(CliRunner().invoke(app, arguments).exception, UsageError)
