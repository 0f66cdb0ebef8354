"""scripts/demo: what it shows at its end can be copied as it is, and its exit code is the run's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "demo"


@pytest.mark.parametrize("code", [0, 9])
def test_the_next_commands_have_the_whole_path(tmp_path: Path, code: int) -> None:
    program = tmp_path / ".venv" / "bin" / "deployctl"
    (tmp_path / "scripts").mkdir()
    program.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "scripts" / "demo")
    for path, line in ((tmp_path / "scripts" / "environment", ""), (program, f"exit {code}")):
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    done = subprocess.run([tmp_path / "scripts" / "demo"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    shown = [line.split("#")[0].split() for line in done.stderr.splitlines()[1:]]
    assert [words[:2] for words in shown] == (
        [] if code else [[str(program), word] for word in ("status", "up", "down")]
    )
