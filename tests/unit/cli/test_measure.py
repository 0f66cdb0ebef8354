"""`deployctl acceptance` offline, and both checks on a server that only misbehaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.errors import DeployError, NotReady, Undecided, UsageError
from deployctl.vllm.client.client import Client
from tests.unit.vllm.loopback import Behaviour, respond, serving, until_closed

CASES = Path(__file__).parents[2] / "cases"
LOGS, METRICS = CASES / "logs", CASES / "metrics"
SPELLINGS = (LOGS / "specdec_formats_by_version.txt").read_text().splitlines()


def acceptance(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
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


FIELD = CASES / "field"


@pytest.mark.parametrize(
    ("name", "accepted", "drafted"),
    [("before.log", 66, 66), ("v0.log", 8547, 13311), ("llamacpp.log", 167, 259)],
)
def test_lines_of_other_programs_and_versions(name: str, accepted: int, drafted: int) -> None:
    _, found = acceptance("--log", FIELD / "24-acceptance-foreign" / name)
    assert (found["accepted_tokens"], found["draft_tokens"]) == (accepted, drafted)
    assert found["acceptance_rate"] == pytest.approx(accepted / drafted)


@pytest.mark.parametrize(
    "path",
    [
        "25-acceptance-zero/ascend-zero.log",
        "24-acceptance-foreign/utf16.log",
        "24-acceptance-foreign/z.log.gz",
    ],
)
def test_nothing_accepted_in_any_encoding(path: str) -> None:
    code, found = acceptance("--log", FIELD / path, "--min-length", "1.5")
    assert (code, found["verdict"]) == (9, "fail")
    assert (found["mean_acceptance_length"], found["draft_tokens"]) == (1.0, 1485)


@pytest.mark.parametrize(("before", "after"), [("rb", "ra"), ("rb2", "ra2"), ("lb", "la")])
def test_counters_under_other_prefixes(before: str, after: str) -> None:
    folder = FIELD / "24-acceptance-foreign"
    code, found = acceptance("--metrics", folder / f"{before}.txt", folder / f"{after}.txt")
    assert (code, found["drafts"], found["accepted_tokens"]) == (0, 1000, 1500)
    assert (found["draft_tokens"], found["mean_acceptance_length"]) == (3000, 2.5)


def test_tokens_that_are_fewer_than_the_least_drafts(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("SpecDecoding metrics: Accepted: 3 tokens, Drafted: 3 tokens\n")
    code, found = acceptance("--log", log, "--min-drafts", "200")
    assert (code, found["verdict"]) == (11, "too-few-drafts")
    assert found["reasons"] == ["at most 3 drafts are too few: the gate asks for 200"]


def test_doubt_about_the_least_drafts_is_no_pass(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("SpecDecoding metrics: Accepted: 44 tokens, Drafted: 161 tokens\n")
    code, found = acceptance("--log", log, "--min-drafts", "100")
    assert (code, found["verdict"]) == (11, "undecided")
    assert found["bounds"] == {"drafts": [1, 161], "mean_acceptance_length": [1 + 44 / 161, 45.0]}


def test_a_floor_inside_what_a_line_rounds_is_undecided(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "SpecDecoding metrics: Mean acceptance length: 2.91, Accepted: 44000 tokens, "
        "Drafted: 161000 tokens\n"
    )
    assert acceptance("--log", log, "--min-length", "2.912")[0] == 11
    assert acceptance("--log", log, "--min-length", "2.90")[0] == 0
    assert acceptance("--log", log, "--min-length", "2.92")[0] == 9


def test_a_form_that_is_not_understood_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("x\nDecode batch, #running-req: 1, accept len: 2.78, accept rate: 0.70\n")
    code, found = acceptance("--log", log)
    assert (code, found["verdict"]) == (11, "unknown")
    assert "not understood" in found["reasons"][0]
    assert "accept len: 2.78" in found["reasons"][0]


def test_a_log_without_a_word_about_speculation(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO: Application startup complete.\n")
    code, found = acceptance("--log", log)
    assert (code, found["verdict"]) == (11, "unknown")
    assert "whether the server speculates is not known" in found["reasons"][0]


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    log = tmp_path / "server.log.zst"
    log.write_bytes(b"\x28\xb5\x2f\xfd rest")
    result = CliRunner().invoke(app, ["acceptance", "--log", str(log)])
    assert isinstance(result.exception, UsageError)
    assert "compressed by zstd: unpack it first" in result.exception.what


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
    said = "HTTP 404: a web page, not an API's answer: 404 nothing here"
    assert result.exception.what.endswith(said)
    assert "\n" not in result.exception.what


def asked(command: str, behave: Behaviour, *arguments: str) -> BaseException | int:
    with serving(behave) as url:
        result = CliRunner().invoke(app, [command, "--url", url, *arguments])
    return result.exception if isinstance(result.exception, DeployError) else result.exit_code


REFUSALS = ["401 Unauthorized", "403 Forbidden", "429 Too Many Requests"]


@pytest.mark.parametrize("command", ["smoke", "acceptance", "bench"])
@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_decides_nothing(command: str, status: str) -> None:
    refuse = respond(status, b'{"error": {"message": "not you"}}')
    assert asked(command, refuse, "--model", "m") == 11
    found = asked(command, refuse)
    assert isinstance(found, Undecided)
    assert "not you" in str(found)
    assert ("--api-key-env" in found.next) is not status.startswith("429")


@pytest.mark.parametrize("command", ["smoke", "acceptance", "bench"])
def test_a_proxy_without_its_server_is_not_ready(command: str) -> None:
    page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1>nginx</body></html>"
    found = asked(command, respond("502 Bad Gateway", page, "text/html"))
    assert isinstance(found, NotReady)
    assert "HTTP 502: a web page, not an API's answer: 502 Bad Gateway" in str(found)


def test_a_server_that_hangs_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client.served, "__defaults__", (0.3,))
    monkeypatch.setattr(Client.models, "__defaults__", (0.3,))
    found = asked("smoke", lambda connection, request: until_closed(connection))
    assert isinstance(found, NotReady)
    assert "no answer within 0.3 s" in str(found)


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


def test_without_a_floor_nothing_has_passed(tmp_path: Path) -> None:
    given = ("--log", log_of(tmp_path, "F1", "F3", "F7", "F8"), "--min-drafts", "5")
    assert acceptance(*given)[1]["verdict"] == "measured"
    assert acceptance(*given, "--min-length", "1")[1]["verdict"] == "pass"
