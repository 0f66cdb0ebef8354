"""init with a model: the host is asked, each proposal has its reason; a terminal is asked, a pipe
never.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from deployctl.config.loader import load_profile
from deployctl.config.profile import Profile

REPOSITORY = Path(__file__).parents[2]
TARGET, DRAFTER = (REPOSITORY / "models" / name for name in ("tiny-target", "tiny-dflash-full"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hosts = tmp_path / "profiles" / "hosts"
    hosts.mkdir(parents=True)
    (hosts / "here.yaml").write_text(f"local: true\nroot: {tmp_path}/root\n")
    return tmp_path


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "deployctl", "init", *argv]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1"}


def made(folder: Path) -> tuple[Profile, str]:
    path = folder / "profiles" / "tiny-target.yaml"
    return load_profile(str(path), environ={}).profile, path.read_text("utf-8")


def test_from_a_model_and_its_drafter(folder: Path) -> None:
    argv = command("--model", str(TARGET), "--drafter", str(DRAFTER), "--ssh", "here")
    done = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    profile, text = made(folder)
    drafter = profile.drafter
    assert drafter is not None
    assert (drafter.method, drafter.num_speculative_tokens) == ("dflash", 7)
    assert "# block_size 8 - 1" in text
    assert "# the model's own: 4096" in text
    assert profile.model.served_name == "tiny-target"


def test_a_terminal_is_asked(folder: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(), cwd=folder, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs
    ) as asked:
        os.close(theirs)
        answers = {b"Model (": str(TARGET), b"Host (": "here", b"Port [": "8111", b"Drafter (": ""}
        shown = b""
        for question, answer in answers.items():
            while question not in shown:
                shown += os.read(ours, 1024)
            os.write(ours, f"{answer}\n".encode())
        while b"next: deployctl plan" not in shown:
            shown += os.read(ours, 1024)
        assert asked.wait(60) == 0, shown
    os.close(ours)
    profile, _ = made(folder)
    assert profile.serve.port == 8111
    assert profile.drafter is None
    assert [host.name for host in profile.hosts] == ["here"]


def test_a_pipe_is_never_asked(folder: Path) -> None:
    done = subprocess.run(
        command(), cwd=folder, env=environment(), input="x\n", capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "Model" not in done.stdout


def test_a_host_that_is_not_reached_is_an_error_and_nothing_is_written(folder: Path) -> None:
    argv = command("--model", "/models/x", "--ssh", "no-such-host.invalid")
    done = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert "no-such-host.invalid" in done.stderr
    assert "init --offline" in done.stderr
    assert [path.name for path in (folder / "profiles").iterdir()] == ["hosts"]
    assert [path.name for path in (folder / "profiles" / "hosts").iterdir()] == ["here.yaml"]


def test_a_host_that_is_not_asked_proposes_nothing(folder: Path) -> None:
    argv = command("--model", "/models/x", "--ssh", "root@no-such-host.invalid:2222", "--offline")
    done = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nothing is proposed from the host: it was not asked" in done.stderr
    profile = load_profile(str(folder / "profiles" / "x.yaml"), environ={}).profile
    (host,) = profile.hosts
    assert host.ssh is not None
    assert (host.ssh.user, host.ssh.port) == ("root", 2222)


def test_a_folder_that_is_not_there_is_refused_and_nothing_is_written(folder: Path) -> None:
    argv = command("--model", "/nowhere/model", "--ssh", "here")
    done = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "/nowhere/model holds no model: it has no config.json" in done.stderr
    assert [path.name for path in (folder / "profiles").iterdir()] == ["hosts"]
