"""The folder that a program is started in is data: no Python of ours imports from it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.agent.build import build_tasks
from deployctl.engine.schedule import entries
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from tests.hosts.lab.stand_in import start

ROOT = Path(__file__).parents[3]
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND
OURS = ("deployctl", "deployctl_agent", "pip", "vllm", "huggingface_hub", "sitecustomize")


class Trap:
    """A folder with a module for every name that a Python program may import, each of which
    leaves its name behind when it is imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sprung = folder / "sprung"
        # `posix` is compiled in, and there before `open` is.
        text = (
            f"import posix; place = posix.open({str(self._sprung)!r}, {FLAGS}, 0o600)\n"
            "posix.write(place, __name__.encode() + b' ')\n"
        )
        folder.mkdir()
        for name in {*sys.stdlib_module_names, *OURS}:
            (folder / f"{name}.py").write_text(text)

    @property
    def sprung(self) -> str:
        """The modules that were imported from here."""
        return self._sprung.read_text() if self._sprung.exists() else ""


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    trap = Trap(tmp_path / "trap")
    monkeypatch.chdir(trap.folder)
    # A variable with an empty entry names the working directory, too.
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    yield trap
    assert trap.sprung == ""


def test_the_trap_works(tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    subprocess.run([sys.executable, "-c", "import base64"], cwd=trap.folder, check=True)
    assert "base64" in trap.sprung


def test_the_agent_and_what_it_runs(trap: Trap, tmp_path: Path) -> None:
    with Session(LocalTransport("here"), root=str(tmp_path / "root")) as session:
        assert session.call("modules.run", source="import base64\ndef f(): return 1", function="f")
        # Its program is still to be sent the first time, and is there the second.
    with Session(LocalTransport("here"), root=str(tmp_path / "root")) as session:
        session.call("jobs.start", id="a", steps=[_step(str(trap.folder))])
        assert session.call("jobs.follow", id="a")["steps"] == [
            {"phase": "refuse", "rc": 0, "seconds": pytest.approx(0, abs=60)}
        ]


def _step(folder: str) -> dict[str, object]:
    Path(folder, "log").write_text("")
    argv = ["@agent", "chore", "refuse", f"{folder}/log", "never"]
    return {"phase": "refuse", "argv": argv, "cwd": folder}


def test_the_agent_of_a_host_whose_login_begins_there(trap: Trap, tmp_path: Path) -> None:
    with start(f'cd "{trap.folder}"; exec "$@"', tmp_path / "root") as session:
        session.call("environment.tools")


def test_pip_on_a_host(trap: Trap, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wheel = f"{trap.folder}/none-1-py3-none-any.whl"
    build_tasks.offer(str(tmp_path / "wheels"), sys.executable, "no uv", wheel)
    assert "none-1-py3-none-any.whl" in capfd.readouterr().err


def test_a_scheduled_deployctl(trap: Trap) -> None:
    environment = {**entries.stated_environment(os.environ), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*entries.command(), "--version"], env=environment, capture_output=True, text=True
    )
    assert done.stdout.startswith("deployctl ")


def test_deployctl_as_a_module(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # The interpreter imports some of its own from there before it runs a line of ours.
    for file in trap.folder.glob("*.py"):
        if file.stem not in ("json", "base64", "typer", "yaml", "pydantic"):
            file.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "deployctl", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
