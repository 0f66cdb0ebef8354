"""One producer, many receivers: real hosts behind sshd, real uv, an index that only some reach."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.builds.project import Project
from tests.hosts.served.many import needs_root
from tests.hosts.shipping.fleet import COMMIT, REPO, Fleet, fleet, host, step

pytestmark = pytest.mark.skipif(needs_root(), reason="network namespaces need root")


BACKEND = """\
import base64, hashlib, pathlib, subprocess, zipfile
def build_wheel(target, settings=None, metadata=None):
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    files = {str(p): p.read_bytes() for p in pathlib.Path("vllm").rglob("*.py")}
    files["vllm/_version.py"] = f"__commit_id__ = 'g{commit[:9]}'\\n".encode()
    info = "vllm-1.0.dist-info"
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\\nName: vllm\\nVersion: 1.0\\n"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    name, lines = "vllm-1.0-py3-none-any.whl", []
    with zipfile.ZipFile(pathlib.Path(target, name), "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(data)}\\n")
        wheel.writestr(f"{info}/RECORD", "".join(lines) + f"{info}/RECORD,,\\n")
    return name
"""
"""A build backend without requirements; it makes a wheel of the commit that it finds."""
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "vllm"
version = "1.0"
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with fleet(folder, online=["maker", "second"], offline=["far", "away"]) as made:
        yield made


@pytest.fixture
def shared(hosts: Fleet) -> Iterator[Fleet]:
    yield hosts
    hosts.clear()


def test_hosts_without_internet_get_all_they_need(shared: Fleet) -> None:
    shared.model = {"repo": REPO, "revision": COMMIT}
    (shared.directory / "hub" / "model.safetensors").write_bytes(weights(3_000_000))
    planned = shared.plan(["far", "maker", "away"])
    told = {d.artifact: d for d in planned["far"].deliveries}
    assert told["environment"].producer == told["model"].producer == "maker"
    assert told["environment"].receivers == ("far", "away") and told["environment"].receives
    assert [d.receives for d in planned["maker"].deliveries] == [False, False]
    assert not (shared.root("far") / "environments").exists()

    record = shared.run(["far", "maker", "away"])
    assert record.exit_code == 0, [str(one.error) for one in record.hosts]
    made = {name: seal(shared, name) for name in ("maker", "far", "away")}
    built = {name: found["evidence"]["build"] for name, found in made.items()}
    assert built["maker"]["strategy"] == "release" and built["far"]["strategy"] == "shared"
    assert built["far"]["delivery"]["producer"] == "maker"
    assert built["far"]["delivery"]["ways"] == ["controller"]
    assert built["maker"]["delivery"]["receivers"] == ["far", "away"]
    packages = [found["evidence"]["verify"]["packages"] for found in made.values()]
    assert (
        packages[0] == packages[1] == packages[2] == {"vllm": "1.2.3", "huggingface_hub": "0.30.0"}
    )
    program = shared.environments("far")[0].parent / "bin" / "vllm"
    assert subprocess.check_output([program], text=True) == "served\n"
    model = step(record, "away", "fetch").evidence["model"]
    assert model["delivery"]["producer"] == "maker"
    assert Path(model["place"], "model.safetensors").stat().st_size > 3_000_000
    # What was only made to travel is gone; a second run finds nothing to do anywhere.
    for name in made:
        left = [path.name for path in (shared.root(name) / "shipping").glob("environment-*")]
        assert left == []
    assert shared.run([*made]).outcome == "unchanged"


def test_a_producer_that_fails_is_named_and_nothing_is_touched(shared: Fleet) -> None:
    shared.build["source"] = {"release": "9.9.9"}  # its wheel is cut off
    record = shared.run(["maker", "far"], steps=["build", "verify"])
    assert record.exit_code == 6
    failed = host(record, "maker").error
    told = host(record, "far").error
    assert failed is not None and told is not None
    assert "maker" in told.what or "maker" in told.why
    assert failed.what in told.why
    assert not list((shared.root("far") / "environments").glob("*"))


def test_another_host_takes_the_place_of_a_producer_that_fails(shared: Fleet) -> None:
    # Where its environment would be made, nothing can be.
    taken = shared.root("maker") / "environments"
    taken.mkdir()
    taken.chmod(0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(taken)], check=True)
    try:
        record = shared.run(["maker", "second", "far"], steps=["build", "verify"])
    finally:
        subprocess.run(["umount", "-l", str(taken)], check=True)
    assert host(record, "maker").error is not None
    assert [host(record, name).error for name in ("second", "far")] == [None, None]
    assert seal(shared, "far")["evidence"]["build"]["delivery"]["producer"] == "second"
    assert "environment: made here, since maker failed" in shared.notes()


def test_who_has_it_already_sends_it(shared: Fleet) -> None:
    assert shared.run(["maker"]).exit_code == 0
    asked = len(shared.index.requests)
    (delivery,) = shared.plan(["far", "maker"])["far"].deliveries
    assert (delivery.producer, delivery.ready) == ("maker", True)
    record = shared.run(["far", "maker"])
    assert [one.error for one in record.hosts] == [None, None]
    assert step(record, "maker", "build").status == "unchanged"
    assert host(record, "maker").deliveries[0].receivers == ("far",)
    assert shared.index.requests[asked:] == []


def test_nobody_shares_where_it_is_not_wanted(shared: Fleet) -> None:
    shared.share = {"way": "none"}
    record = shared.run(["maker", "far"], steps=["build", "verify"])
    assert host(record, "maker").error is None
    assert host(record, "far").error is not None
    assert not shared.plan(["maker", "far"])["maker"].deliveries


def test_a_commit_is_built_once_and_proven_everywhere(shared: Fleet, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.folder.mkdir()
    project.git("init", "-q", "-b", "main")
    files = {
        "pyproject.toml": PROJECT,
        "backend.py": BACKEND,
        "vllm/__init__.py": "name = 'vllm'\n",
    }
    project.git("commit", "-q", "--allow-empty", "-m", "begin")
    commit = project.commit("main", files)
    shared.build["source"] = {"url": project.url, "ref": "main", "upstream": project.url}
    record = shared.run(["maker", "far"], steps=["build", "verify"])
    assert record.exit_code == 0, [str(one.error) for one in record.hosts]
    maker, far = (step(record, name, "build").evidence for name in ("maker", "far"))
    assert (maker["strategy"], far["strategy"]) == ("source", "shared")
    for evidence in (maker, far):
        assert evidence["commit_installed"] == evidence["commit_imported"] == commit
    assert far["wheel"] == maker["wheel"] is not None
    assert not (shared.root("far") / "sources").exists()


def seal(shared: Fleet, name: str) -> dict[str, Any]:
    (path,) = shared.environments(name)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def weights(size: int) -> bytes:
    """A safetensors file with one tensor of so many bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)
