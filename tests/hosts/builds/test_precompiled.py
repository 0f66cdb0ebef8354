"""Upstream's binaries: only for a change of Python alone, and only those of exactly its base."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import StagingFailed
from tests.hosts.builds import project as projects
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import EXTENSIONS, Project


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: pytest shows what failed."""


@pytest.fixture
def cuda_project(tmp_path: Path) -> Project:
    return projects.make(tmp_path / "project", cuda="13.0")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "index"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


def publish(index: Path, commit: str, environment: Path, names: tuple[str, ...]) -> None:
    """What upstream publishes for a commit: metadata, and the binaries."""
    place = index / commit
    (place / "vllm").mkdir(parents=True)
    (place / "vllm/metadata.json").write_text("[]")
    site = next((environment / "lib").glob("python3*")) / "site-packages"
    for name in names:
        (place / f"vllm.{name}.so").write_bytes((site / f"vllm/{name}.abi3.so").read_bytes())


def build(project: Project, ref: str, url: str, **more: Any) -> dict[str, Any]:
    return {
        "source": {"url": project.url, "ref": ref, "upstream": project.url},
        "target": "cuda",
        "precompiled_index": url,
        "env": {"STAND_IN_INDEX": url},
        "compile_bytecode": False,
        **more,
    }


def test_python_alone_takes_the_binaries_of_its_base(
    builder: BuildHost, cuda_project: Project, index: tuple[str, Path]
) -> None:
    url, folder = index
    base = cuda_project.git("rev-parse", "main")
    compiled = builder.up(builder.wanted(build(cuda_project, "main", url, strategy="source")))
    publish(folder, base, builder.environment(compiled["key"]), EXTENSIONS)
    commit = cuda_project.commit("python", {"vllm/answer.py": "better = True\n"})
    done = builder.up(builder.wanted(build(cuda_project, "python", url)))
    assert done["build"]["strategy"] == "precompiled"
    assert (done["build"]["merge_base"], done["build"]["commit_imported"]) == (base, commit)
    # A change of compiled code steps down, and says why.
    cuda_project.commit("native", {"csrc/more.cu": "// kernel\n"})
    native = builder.up(builder.wanted(build(cuda_project, "native", url)))
    reasons = {a["strategy"]: a["reason"] for a in native["build"]["attempts"]}
    assert "csrc/more.cu" in reasons["precompiled"]
    assert native["build"]["strategy"] == "source"


def test_nightly_binaries_are_refused(
    builder: BuildHost, cuda_project: Project, index: tuple[str, Path]
) -> None:
    url, folder = index
    base = cuda_project.git("rev-parse", "main")
    (folder / base / "vllm").mkdir(parents=True)
    (folder / base / "vllm/metadata.json").write_text("[]")
    cuda_project.commit("python", {"vllm/answer.py": "better = True\n"})
    wanted = build(cuda_project, "python", url, strategy="precompiled")
    with pytest.raises(StagingFailed) as caught:
        builder.up(builder.wanted(wanted))
    assert caught.value.evidence["kind"] == "wrong-binaries"
    assert builder.session.call("environment.wheels") == []


def test_no_binaries_of_that_commit(
    builder: BuildHost, cuda_project: Project, index: tuple[str, Path]
) -> None:
    cuda_project.commit("python", {"vllm/answer.py": "better = True\n"})
    wanted = build(cuda_project, "python", index[0], strategy="precompiled")
    with pytest.raises(StagingFailed) as caught:
        builder.up(builder.wanted(wanted))
    assert "no binaries" in str(caught.value) and "metadata.json: 404" in str(caught.value)
