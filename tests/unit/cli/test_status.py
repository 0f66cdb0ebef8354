"""`deployctl status`: what the exit code says of a server that nobody could ask."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.engine.inspect import status
from deployctl.report import serving


def host(generates: bool | None, **more: Any) -> dict[str, Any]:
    found = {
        "state": "running",
        "health": {"status": 200, "error": None},
        "generates": generates,
        "healthy": generates is True,
        "unproven_release": False,
        "loaded_other": False,
        "proven": True,
    }
    return {**found, **more}


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        ([host(True)], 0),
        ([host(False)], 7),
        # It wants a key that is not here, say.
        ([host(None)], 11),
        ([host(True), host(None)], 11),
        ([host(None), host(False)], 7),
        ([host(None, unproven_release=True)], 7),
        ([host(None, health={"status": 503, "error": None})], 7),
        ([host(None, state="lost", health=None)], 7),
    ],
)
def test_unknown_is_neither_healthy_nor_a_failure(
    monkeypatch: pytest.MonkeyPatch, hosts: list[dict[str, Any]], code: int
) -> None:
    document = {"schema": status.SCHEMA, "profile": "demo", "hosts": hosts}
    monkeypatch.setattr(status, "survey", lambda profile: document)
    result = CliRunner().invoke(app, ["status", "--profile", "demo", "--json"])
    assert result.exit_code == code, result.output


def test_the_first_line_says_it() -> None:
    said = [serving._headline(host(generates)) for generates in (True, None, False)]
    assert said == ["healthy", "it answers, and whether it generates is unknown", "NOT healthy"]
