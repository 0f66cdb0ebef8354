"""A small file system of its own, which a test fills to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str = "4m") -> Iterator[Path]:
    """Mounted on `place` while the context lasts; skips where nobody may mount."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    """The file that takes all the room there is."""
    path = disk / "filling"
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            return path


@contextmanager
def read_only(disk: Path, view: Path) -> Iterator[Path]:
    """A view of a disk that takes no writing, while what runs on the disk itself goes on."""
    view.mkdir()
    subprocess.run(["mount", "--bind", str(disk), str(view)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(view)], check=True)
        yield view
    finally:
        subprocess.run(["umount", "-l", str(view)], check=True)
