"""Arguments of a wrong kind are told as such, before anything is done."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.errors import UsageError

CONFIG = "tests/cases/configs/qwen3.6-27b-dflash.trimmed.config.json"
DEAD = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "argv",
    [
        ("run", "", "-p", "demo"),
        ("plan", "-p", "demo", "--playbook", ""),
        ("report", ""),
        ("schedule", "add", "-p", "demo", "--at", "0 4 * * *", "--lock-wait", "soon"),
        ("schedule", "add", "-p", "demo", "--at", "0 4 * * *", "--playbook", ""),
        ("schedule", "add", "-p", "demo", "--at", "0 4 * * *\n* * * * *"),
        ("schedule", "add", "--dry-run", "--at", "0 0 4 * * *"),
        ("schedule", "add", "--at", "@daily"),
        ("schedule", "check", "x" * 5000),
        ("clean", "-p", "demo", "--plan", "--lock-wait", "soon"),
        ("build", "-p", "demo", "--prune", "9" * 400),
        ("acceptance", "--log", "/dev/null", "--min-length", "inf"),
        ("acceptance", "--log", "/dev/null", "--min-rate", "nan"),
        ("smoke", "--url", "http://[::1"),
        ("bench", "--url", DEAD, "--plain-url", "not-a-url"),
        ("drafter", "check", CONFIG, "--target", "nowhere/config.json"),
        ("profile", "show", "demo", "--set", f"serve.port={'9' * 5000}"),
        ("profile", "show", "demo", "--set", "hosts.².root=/x"),
    ],
    ids=lambda argv: " ".join(argv)[:60],
)
def test_a_wrong_kind_of_argument_is_a_usage_error(argv: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, list(argv))
    assert isinstance(done.exception, UsageError) or done.exit_code == 2, done.exception
