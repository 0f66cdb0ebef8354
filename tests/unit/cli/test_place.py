"""Where the command line is used from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployctl.cli import app


def test_a_working_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr("sys.argv", ["deployctl", "profile", "list"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    os.chdir(tmp_path)
    assert ended.value.code == 2
    assert "the working directory no longer exists" in capsys.readouterr().err
