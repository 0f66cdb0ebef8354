"""A result that cannot be written is a warning; a run keeps its own result and exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hosts.lab.ports import free_port
from tests.unit.cli.test_command_line import deployctl

PROFILE = """\
extends: demo
name: toy
hosts: [{{name: here, local: true, root: {root}}}]
serve: {{port: {port}}}
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """A profile whose `down` finds nothing to stop, quickly."""
    path = tmp_path / "toy.yaml"
    path.write_text(PROFILE.format(root=tmp_path / "root", port=free_port()), encoding="utf-8")
    return path


def test_a_report_that_cannot_be_kept_is_a_warning(profile: Path) -> None:
    done = deployctl("down", "-p", str(profile), "--json", XDG_STATE_HOME="/proc/nope")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "unchanged"
    assert "warning: the report is not kept" in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize(("verb", "code"), [("down", 0), ("smoke", 7)])
@pytest.mark.parametrize(
    "streams", [">/dev/full", "2>/dev/full", ">/dev/full 2>&1", ">&-", "2>&-", ">&- 2>&-"]
)
def test_a_full_disk_does_not_change_the_exit_code(
    profile: Path, tmp_path: Path, verb: str, code: int, streams: str
) -> None:
    done = deployctl(verb, "-p", str(profile), streams=streams, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("profile", "list"),
        ("profile", "show", "demo"),
        ("profile", "schema"),
        ("profile", "validate", "demo"),
        ("report", "--list", "--json"),
        ("drafter", "show", "tests/cases/configs/qwen3.6-27b-dflash.trimmed.config.json"),
        ("history", "-p", "{profile}"),
        ("clean", "-p", "{profile}", "--plan"),
        ("plan", "-p", "{profile}", "--json"),
    ],
    ids=" ".join,
)
def test_an_answer_that_cannot_be_printed_is_a_failure(
    profile: Path, tmp_path: Path, argv: tuple[str, ...]
) -> None:
    words = [word.format(profile=profile) for word in argv]
    done = deployctl(*words, streams=">/dev/full", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 1, done.stderr
    assert "error: the answer cannot be printed\n  why: No space left on device" in done.stderr


def test_an_answer_with_nowhere_to_go_is_a_failure() -> None:
    done = deployctl("profile", "list", streams=">&-")
    assert done.returncode == 1
    assert "error: the answer cannot be printed\n  why: Bad file descriptor" in done.stderr


def test_characters_that_stdout_lacks_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"a": "\\ud800 \\ud83d\\ude00 \u00fc", "b": NaN}', encoding="utf-8")
    shown = '{"a": "\\ud800 \\ud83d\\ude00 \\xfc", "b": NaN}\n'
    assert deployctl("drafter", "show", str(file), PYTHONIOENCODING="ascii").stdout == shown
    for encoding in ("ascii", "utf-8"):
        done = deployctl("drafter", "show", str(file), "--json", PYTHONIOENCODING=encoding)
        document = json.loads(done.stdout, parse_constant=pytest.fail)
        assert document["configs"][0]["config"] == {"a": "\ud800 \U0001f600 \u00fc", "b": "nan"}


def test_a_reader_that_went_away_is_nobodys_failure() -> None:
    done = deployctl("profile", "schema", streams="| true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("up", "-p", "demo", "--jsn"), "No such option: --jsn"),
        (("up", "--nope", "-p", "demo"), "No such option: --nope"),
        (("up",), "Missing option '--profile' / '-p'"),
        (("upp",), "No such command 'upp'."),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_a_wrong_command_line_is_a_document_where_one_was_asked_for(
    argv: tuple[str, ...], said: str
) -> None:
    done = deployctl(*argv, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["exit_code"], document["outcome"]) == (2, 2, "failed")
    assert said in document["error"]["what"]
    if argv == ("up",):
        assert "demo" in document["error"]["next"]
        assert "for example: deployctl up --profile demo" in document["error"]["next"]
        assert document["error"]["next"] in done.stderr
    assert said in done.stderr
    assert deployctl(*argv).stdout == ""


def test_a_metrics_file_that_cannot_be_written_is_a_warning(profile: Path, tmp_path: Path) -> None:
    done = deployctl(
        *("smoke", "-p", str(profile), "--metrics-file", "/proc/nope/x"),
        XDG_STATE_HOME=str(tmp_path),
    )
    assert done.returncode == 7
    assert "warning: --metrics-file /proc/nope/x cannot be written" in done.stderr


def test_a_log_of_nothing_is_said_to_be_none(profile: Path) -> None:
    done = deployctl("logs", "-p", str(profile))
    assert (done.returncode, done.stdout) == (7, "")
    assert "nothing has served" in done.stderr
    done = deployctl("logs", "-p", str(profile), "--job", "nope")
    assert done.returncode == 2
    assert "there is no job nope" in done.stderr
    assert "jobs: none" in done.stderr


def test_a_variable_with_one_underscore_is_warned_about(profile: Path, tmp_path: Path) -> None:
    done = deployctl(
        *("down", "-p", str(profile)), XDG_STATE_HOME=str(tmp_path), DEPLOYCTL_SERVE_PORT="12"
    )
    assert done.returncode == 0
    assert "warning: DEPLOYCTL_SERVE_PORT sets nothing; did you mean" in done.stderr
