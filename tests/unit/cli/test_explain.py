"""`deployctl explain`: a document, its exit codes, and every encoding that people send."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from deployctl.cli.app import app
from deployctl.errors import UsageError

FIELD = Path(__file__).parents[2] / "cases" / "field"
KILLED = FIELD / "08-killed-nvcc" / "b-killed.log"
SINKS = FIELD / "01-double-prefix" / "a2-double-unknown.log"


def run(*argv: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["explain", *argv], input=stdin)


def test_a_known_cause() -> None:
    done = run(str(KILLED), "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 0
    assert list(document) == ["schema", "kind", "cause", "summary", "evidence", "next"]
    assert document["schema"] == "deployctl.explain/1"
    assert (document["kind"], document["cause"]) == ("build", "out-of-memory")
    assert document["evidence"][0].strip() == "Killed"


def test_an_unknown_cause_is_undecided() -> None:
    done = run(str(SINKS), "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["cause"], document["kind"]) == (11, "unknown", "server")
    assert "attention sinks" in document["summary"] and document["next"]
    assert "attention sinks" in run(str(SINKS)).stdout


def test_the_kind_can_be_given() -> None:
    document = json.loads(run(str(KILLED), "--kind", "server", "--json").stdout)
    assert document["kind"] == "server"


def test_stdin_and_a_log_without_an_error() -> None:
    done = run("-", "--json", stdin="INFO 06-19 23:05:09 [backends.py:426] all is well\n")
    assert (done.exit_code, json.loads(done.stdout)["evidence"]) == (11, [])
    assert run("-", stdin=b"").exit_code == 11


CPU_LOGS = FIELD.parents[0] / "vllm_cpu"


def test_a_healthy_log_says_how_far_it_goes() -> None:
    text = (CPU_LOGS / "log-0.32.0-plain.txt").read_text("utf-8")
    ready = text.partition("Application startup complete.")[0] + "Application startup complete.\n"
    done = run("-", "--json", stdin=ready)
    document = json.loads(done.stdout)
    assert (done.exit_code, document["cause"]) == (11, "unknown")
    assert "the server became ready" in document["summary"] and "status" in document["next"]
    assert "Application startup complete" in document["evidence"][0]
    loading = text.partition("Loading weights took")[0]
    document = json.loads(run("-", "--json", stdin=loading).stdout)
    assert "the log ends while the server was loading weights" in document["summary"]


def test_an_empty_log_is_called_empty() -> None:
    document = json.loads(run("-", "--json", stdin="\n \n").stdout)
    assert document["summary"] == "the log is empty"
    assert "deployctl logs" in document["next"]


@pytest.mark.parametrize(
    "encode",
    [
        gzip.compress,
        bz2.compress,
        lzma.compress,
        lambda data: data.decode().encode("utf-16"),
        lambda data: data.decode().encode("utf-16-le"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data + b"\xff\xfe\x00 not UTF-8",
    ],
)
def test_encodings(encode: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(encode(KILLED.read_bytes()))
    assert json.loads(run(str(tmp_path / "log"), "--json").stdout)["cause"] == "out-of-memory"


def test_a_terminal_is_not_steered(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("ValueError: \x1b]0;title\x07surprise \x1b[2J\n")
    assert "\x1b" not in run(str(tmp_path / "log")).stdout


def test_no_file(tmp_path: Path) -> None:
    assert isinstance(run(str(tmp_path / "none")).exception, UsageError)


def test_an_orderly_stop_is_named_as_one() -> None:
    log = FIELD.parent / "vllm_cpu" / "log-0.32.0-plain.txt"
    done = run(str(log), "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["cause"]) == (0, "stopped")
    assert "shutdown triggered" in document["evidence"][0]
    # One that serves again after it was not stopped by it.
    restarted = log.read_text() + "INFO: Application startup complete.\n"
    again = run("-", "--json", stdin=restarted)
    assert (again.exit_code, json.loads(again.stdout)["cause"]) == (11, "unknown")
