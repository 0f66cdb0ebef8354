from __future__ import annotations

import ast
import importlib.util
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import deployctl.agent
from deployctl.hosts.bundle import BOOTSTRAP, bundle

HOME = Path(deployctl.agent.__file__).parent
AGENT = sorted(HOME.rglob("*.py"))
OLDEST = (3, 9)


def test_the_same_code_has_the_same_hash() -> None:
    first = bundle()
    bundle.cache_clear()
    assert bundle() == first


def test_it_is_packed() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle().data)) as archive:
        names = archive.namelist()
        assert {f"deployctl_agent/{path.relative_to(HOME)}" for path in AGENT} < set(names)
        assert archive.read("deployctl_agent/main.py") == (HOME / "main.py").read_bytes()
        packed = sum(entry.compress_size for entry in archive.infolist())
        assert packed < sum(entry.file_size for entry in archive.infolist()) / 2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bundle.cache_clear()
    yield tmp_path / "deployctl" / "agent"
    bundle.cache_clear()


def test_it_is_compiled_once_and_kept_for_its_owner(cache: Path) -> None:
    first = bundle()
    (kept,) = cache.iterdir()
    assert kept.read_bytes() == first.data and kept.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(io.BytesIO(first.data)) as archive:
        assert archive.read("deployctl_agent/main.pyc")[:4] == importlib.util.MAGIC_NUMBER
    bundle.cache_clear()
    kept.chmod(0o666)
    assert bundle().data != b""
    assert kept.stat().st_mode & 0o777 == 0o600, "one that others could write is made again"


def test_what_is_compiled_is_what_runs(cache: Path, tmp_path: Path) -> None:
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(bundle().data)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import deployctl_agent.main as m;"
        "print(m.__cached__ or m.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(archive)], capture_output=True, text=True
    )
    assert done.stdout.strip().endswith(".pyc"), done.stderr


def test_another_pythons_host_takes_the_source(cache: Path, tmp_path: Path) -> None:
    foreign = b"\0\0\r\n"
    archive = tmp_path / "agent.pyz"
    with zipfile.ZipFile(io.BytesIO(bundle().data)) as made, zipfile.ZipFile(archive, "w") as other:
        for entry in made.infolist():
            data = made.read(entry)
            other.writestr(entry, foreign + data[4:] if entry.filename.endswith("c") else data)
    done = subprocess.run([sys.executable, "-I", str(archive)], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr


def test_without_a_cache_the_source_alone_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/none")
    bundle.cache_clear()
    with zipfile.ZipFile(io.BytesIO(bundle().data)) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".pyc")]
    bundle.cache_clear()


@pytest.mark.parametrize("path", AGENT, ids=lambda path: path.stem)
def test_every_module_is_the_oldest_pythons_and_stands_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=OLDEST)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops = {alias.name.partition(".")[0] for alias in node.names}
            assert tops <= sys.stdlib_module_names, f"line {node.lineno}"
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            assert node.module.partition(".")[0] in sys.stdlib_module_names, f"line {node.lineno}"


def test_the_bootstrap_says_too_old_before_anything_new() -> None:
    # Up to that line it must be readable by any Python, an f-string or `b""` prefix-free print
    # of Python 2 alike; the whole must be the oldest's.
    ast.parse(BOOTSTRAP, feature_version=(3, 4))
    for newer in ("f'", 'f"', ":=", "async ", "print "):
        assert newer not in BOOTSTRAP
