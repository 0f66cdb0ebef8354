"""Completion as a shell asks for it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def deployctl(*arguments: str, **variables: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **variables}
    code = "import sys; sys.argv[0] = 'deployctl'; from deployctl.cli.app import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("deployctl compl", {"completion"}),
        ("deployctl up --profile demo", {"demo", "demo-ngram"}),
        ("deployctl status --host loc", {"local"}),
        ("deployctl up --skip acc", {"acceptance"}),
    ],
)
def test_names(words: str, found: set[str]) -> None:
    position = str(len(words.split()) - 1)
    asked = {"_DEPLOYCTL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    assert set(deployctl(**asked).split()) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_accepts_its_script(shell: str) -> None:
    script = deployctl("completion", shell)
    assert "_DEPLOYCTL_COMPLETE" in script
    if shell == "bash":
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr
