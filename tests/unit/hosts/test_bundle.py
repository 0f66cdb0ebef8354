from __future__ import annotations

import ast
import io
import sys
import zipfile
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
    assert len(bundle().data) < sum(path.stat().st_size for path in AGENT) / 2


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
