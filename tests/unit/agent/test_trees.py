"""Folders deeper than a path can name: removed, counted, and not taken over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.agent.build.takeover import take_back
from deployctl.agent.core import trees
from deployctl.agent.core.interface import AgentError, Call
from deployctl.agent.store import files, garbage

DEPTH = 2500


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root with a cache that a hostile build has left."""
    cache = tmp_path / "root/caches/deep"
    cache.mkdir(parents=True)
    (cache / "file").write_text("x" * 5000)
    (cache / "out").symlink_to(tmp_path)
    dig = f"import os\nfor _ in range({DEPTH}):\n os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", dig], cwd=cache, check=True)
    yield tmp_path / "root"
    # pytest's own clearing cannot.
    subprocess.run(["rm", "-rf", tmp_path / "root"], check=True)


def call(root: Path) -> Call:
    return Call(str(root), lambda event: None)


def test_it_is_counted_and_collected(root: Path) -> None:
    counted = garbage.inventory(call(root))["caches"]["deep"]["bytes"]
    assert 5000 <= counted < 100_000
    assert garbage.remove(call(root), "caches", "deep") == {"removed": "deep"}
    assert list((root / "caches").iterdir()) == []
    assert root.parent.exists(), "a link was followed"


def test_it_is_removed_as_a_tree(root: Path) -> None:
    assert files.remove_tree(call(root), "@/caches/deep")["removed"]
    trees.remove(str(root / "caches/deep"))
    assert list((root / "caches").iterdir()) == []


def test_it_is_not_taken_over(root: Path) -> None:
    with pytest.raises(AgentError, match="cannot be taken over") as refused:
        take_back(str(root / "caches/deep"), 54321)
    assert refused.value.kind == "unsafe"
