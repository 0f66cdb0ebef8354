"""Killed anywhere between start and seal: nothing half is taken for whole, what serves stays as it
is, nothing is left running, and the next `up` finishes the work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.processes.processes import command, everyone, read_stat
from deployctl.errors import ConnectionLost, StagingFailed
from deployctl.steps import job
from deployctl.steps.build import environment_key, job_id
from deployctl.steps.verify import VerifyStep
from tests.hosts.builds import project as projects
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project
from tests.hosts.builds.waiting import until
from tests.hosts.lab.processes import send
from tests.slow import some

# They share a scene, which is built.
pytestmark = pytest.mark.xdist_group("kill points")


class Scene:
    """A serving environment, a repository with a newer commit, and a way to stop a build in its
    middle: `flag` holds it for as long as it is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flag = folder / "hold"
        self.project: Project = projects.make(folder / "project")
        self.commit = self.project.commit("feature", {"vllm/more.py": "x = 1\n"})
        self.host = BuildHost(folder / "root")
        serving = self.host.up(self.wanted("v1.0.0", {}))
        self.serving = self.host.environment(serving["key"])
        self.digest = self.tree()
        python = self.serving / "bin/python"
        code = "import vllm, time; print('up', flush=True); time.sleep(3600)"
        self.server = subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE)
        assert self.server.stdout is not None and self.server.stdout.readline() == b"up\n"

    def wanted(self, ref: str, env: dict[str, str]) -> Any:
        source = {"url": self.project.url, "ref": ref, "upstream": self.project.url}
        settings = {"source": source, "env": env, "compile_bytecode": False}
        return self.host.wanted(settings)

    def tree(self) -> str:
        return str(self.host.session.call("files.tree_digest", path=str(self.serving))["sha256"])

    def close(self) -> None:
        self.server.kill()
        self.server.communicate()
        # What a test that failed left goes on for as long as it is held.
        self.flag.unlink(missing_ok=True)
        self.host.stop_jobs()
        self.host.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("kill"))
    yield made
    made.close()


class Running:
    """An `up` in a thread, by a controller of its own."""

    def __init__(self, scene: Scene, wanted: Any) -> None:
        self.host = BuildHost(scene.host.root)
        self.error: BaseException | None = None
        self._wanted = wanted
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.host.up(self._wanted)
        except (StagingFailed, ConnectionLost) as error:
            self.error = error

    def kill_agent(self) -> None:
        os.kill(self.host.session.agent["pid"], signal.SIGKILL)

    def end(self) -> BaseException | None:
        self.thread.join()
        self.host.close()
        return self.error


def still_working(folder: Path) -> list[str]:
    """Processes of a build below the test's folder, the serving one aside."""
    found = [" ".join(command(stat.pid)) for stat in everyone() if stat.state not in "ZX"]
    return [text for text in found if str(folder) in text and "import vllm, time" not in text]


def finish(scene: Scene, wanted: Any) -> None:
    """The next `up`: whole, sealed, of the right commit, and nothing else touched."""
    scene.flag.unlink(missing_ok=True)
    done = scene.host.up(wanted)
    assert done["build"]["commit_imported"] == scene.commit
    assert scene.host.seal(done["key"]) is not None
    assert scene.host.up(wanted)["plans"] == {"build": "unchanged", "verify": "unchanged"}
    assert scene.tree() == scene.digest
    assert scene.server.poll() is None
    until(lambda: not [t for t in still_working(scene.folder / "root") if "supervise" not in t])


def key_and_id(scene: Scene, wanted: Any) -> tuple[str, str]:
    key = environment_key(wanted, scene.host.answers(wanted))
    return key, job_id(key)


def hold_before(monkeypatch: pytest.MonkeyPatch, flag: Path, phase: str) -> None:
    """Put a wait before the first step of this phase in the build's job."""
    real = job.run

    def run(context: Any, id: str, steps: Any, **more: Any) -> Any:
        steps = list(steps)
        at = next((n for n, step in enumerate(steps) if step["phase"] == phase), None)
        if at is not None and id.startswith("build-"):
            wait = f"while [ -e {flag} ]; do sleep 0.05; done"
            steps.insert(at, {"phase": "held", "argv": ["sh", "-c", wait]})
        return real(context, id, steps, **more)

    monkeypatch.setattr(job, "run", run)


def kill_everything(scene: Scene, name: str) -> None:
    """What a machine that goes down does, as far as processes go: nobody outlives the others long
    enough to see them end."""
    state = scene.host.session.call("jobs.state", id=name)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (state["pid"], *state["members"]):
            send(pid, number)


@pytest.mark.parametrize(
    "phase",
    some(
        ["cloning", "compiling", "keeping", "checking", "creating", "installing"],
        ["compiling", "installing"],
    ),
)
def test_supervisor_killed_before(
    scene: Scene, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scene.wanted("feature", {"POINT": f"before {phase}"})
    key, name = key_and_id(scene, wanted)
    scene.flag.touch()
    hold_before(monkeypatch, scene.flag, phase)
    running = Running(scene, wanted)
    call = scene.host.session.call
    state = until(lambda: s if (s := call("jobs.state", id=name)).get("phase") == "held" else None)
    os.kill(state["pid"], signal.SIGKILL)
    error = running.end()
    assert isinstance(error, StagingFailed) and "lost" in str(error)
    assert scene.host.seal(key) is None
    monkeypatch.undo()
    finish(scene, wanted)


@pytest.mark.parametrize("victim", ["uv", "everything"])
def test_killed_while_compiling(scene: Scene, victim: str) -> None:
    wanted = scene.wanted(
        "feature", {"POINT": f"compiling {victim}", "STAND_IN_HOLD": str(scene.flag)}
    )
    key, name = key_and_id(scene, wanted)
    scene.flag.touch()
    building = scene.folder / "building"
    building.unlink(missing_ok=True)
    running = Running(scene, wanted)
    compiler = int(until(lambda: building.read_text() if building.exists() else ""))
    if victim == "uv":
        (uv,) = [
            stat
            for stat in everyone()
            if stat.comm == "uv" and any(str(scene.folder) in a for a in command(stat.pid))
        ]
        os.kill(uv.pid, signal.SIGKILL)
    else:
        kill_everything(scene, name)
    error = running.end()
    assert isinstance(error, StagingFailed)
    assert ("failed" if victim == "uv" else "lost") in str(error)
    # uv leaves its build's children behind when it is killed; the job does not.
    stat = read_stat(compiler)
    assert stat is None or stat.state in "ZX"
    assert scene.host.seal(key) is None
    finish(scene, wanted)


@pytest.mark.parametrize("how", some(["agent killed", "connection cut"], ["agent killed"]))
def test_controller_lost_while_compiling_attaches(scene: Scene, how: str) -> None:
    wanted = scene.wanted("feature", {"POINT": how, "STAND_IN_HOLD": str(scene.flag)})
    _, name = key_and_id(scene, wanted)
    scene.flag.touch()
    building = scene.folder / "building"
    building.unlink(missing_ok=True)
    running = Running(scene, wanted)
    until(building.exists)
    if how == "agent killed":
        running.kill_agent()
    else:
        running.host.session.close()
    assert isinstance(running.end(), ConnectionLost)
    call = scene.host.session.call
    before = call("jobs.state", id=name)
    assert before["state"] == "running"
    second = Running(scene, wanted)
    until(lambda: any("attached" in note for note in second.host.notes))
    scene.flag.unlink()
    assert second.end() is None
    # One build, not two: the same supervisor all along.
    after = call("jobs.state", id=name)
    assert (after["pid"], after["start"], after["state"]) == (
        before["pid"],
        before["start"],
        "done",
    )
    finish(scene, wanted)


def test_half_an_install_is_not_whole(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv killed while it links files leaves an environment that pip calls fine; a removal that was
    cut off leaves one that uv does not clear."""
    wanted = scene.wanted("feature", {"POINT": "half"})
    key, _ = key_and_id(scene, wanted)
    real = job.run

    def run(context: Any, id: str, steps: Any, **more: Any) -> Any:
        steps = list(steps)
        cut = (
            "import pathlib,sys\n"
            "site = next(pathlib.Path(sys.argv[1]).glob('lib/python3*/site-packages'))\n"
            "info = next(site.glob('vllm-*.dist-info'))\n"
            "for name in ('INSTALLER', 'direct_url.json', 'REQUESTED'):\n"
            "    (info / name).unlink(missing_ok=True)\n"
            "(site / 'vllm' / 'more.py').unlink()\n"
        )
        if id.startswith("build-"):
            half = [sys.executable, "-c", cut, f"@/environments/{key}"]
            steps.append({"phase": "cut", "argv": half})
        return real(context, id, steps, **more)

    monkeypatch.setattr(job, "run", run)
    with pytest.raises(StagingFailed) as caught:
        scene.host.up(wanted)
    assert "INSTALLER" in str(caught.value) or "commit" in str(caught.value)
    assert scene.host.seal(key) is None
    monkeypatch.undo()
    (scene.host.environment(key) / "pyvenv.cfg").unlink()
    finish(scene, wanted)


def test_killed_between_done_and_seal_is_not_built_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = scene.wanted("feature", {"POINT": "before the seal"})
    key, name = key_and_id(scene, wanted)
    running: list[Running] = []

    def killed(self: VerifyStep, context: Any, evidence: Any) -> None:
        running[0].kill_agent()
        context.session.call("jobs.state", id=name)

    monkeypatch.setattr(VerifyStep, "_seal", killed)
    running.append(Running(scene, wanted))
    assert isinstance(running[0].end(), ConnectionLost)
    assert scene.host.seal(key) is None
    monkeypatch.undo()
    before = scene.host.session.call("jobs.state", id=name)
    finish(scene, wanted)
    assert scene.host.session.call("jobs.state", id=name)["pid"] == before["pid"]


def test_stopped_while_compiling_leaves_nothing(scene: Scene) -> None:
    wanted = scene.wanted("feature", {"POINT": "stop", "STAND_IN_HOLD": str(scene.flag)})
    _, name = key_and_id(scene, wanted)
    scene.flag.touch()
    building = scene.folder / "building"
    building.unlink(missing_ok=True)
    running = Running(scene, wanted)
    until(building.exists)
    state = scene.host.session.call("jobs.stop", id=name)
    assert (state["state"], state["members"]) == ("stopped", [])
    error = running.end()
    assert isinstance(error, StagingFailed) and "stopped" in str(error)
    finish(scene, wanted)


def test_a_wheel_without_its_record_is_no_wheel(scene: Scene) -> None:
    wanted = scene.wanted("feature", {"POINT": "wheel"})
    first = scene.host.up(wanted)
    call = scene.host.session.call
    site = next((scene.host.environment(first["key"]) / "lib").glob("python3*"))
    url = next(site.glob("site-packages/vllm-*.dist-info/direct_url.json")).read_text()
    (kept,) = [w for w in call("environment.wheels") if Path(w["path"]).parent.name in url]
    (Path(kept["path"]).parent / "wheel.json").unlink()
    assert kept["key"] not in {w["key"] for w in call("environment.wheels")}
    shutil.rmtree(scene.host.environment(first["key"]))
    again = scene.host.up(wanted)
    assert again["build"]["strategy"] == "source"
