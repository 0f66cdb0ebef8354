"""A place of its own for every test: a working directory, a user's directory and a shipped one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from deployctl.config.loader import Loaded, load_profile
from deployctl.config.search import Place, Search

SMALLEST = """\
hosts: [{name: here, local: true}]
model: {path: /models/m, served_name: m}
build:
  source: {release: 0.33.0}
serve: {port: 8000}
"""


class Folder:
    """Writes files below a temporary directory and loads profiles from there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.user = root / "user"
        self.shipped = root / "shipped"
        for place in (self.work, self.user, self.shipped):
            place.mkdir()
        self.search = Search(
            (
                Place("working directory", self.work),
                Place("user", self.user),
                Place("shipped", self.shipped),
            )
        )

    def write(self, path: str, text: str | bytes) -> Path:
        """A file below the root; text is dedented."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return file

    def profile(self, name: str, text: str) -> Path:
        """A profile of the working directory on top of the smallest valid one."""
        self.write("work/profiles/smallest.yaml", SMALLEST)
        return self.write(f"work/profiles/{name}.yaml", "extends: smallest\n" + dedent(text))

    def load(self, name: str, *sets: str, **environ: str) -> Loaded:
        """A profile by name, with overrides and no other environment."""
        return load_profile(name, sets=sets, environ=environ, search=self.search)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    made = Folder(tmp_path)
    monkeypatch.chdir(made.work)
    return made


@pytest.fixture
def reads(folder: Folder) -> Callable[[str], Loaded]:
    """Loads a profile given as text on top of the smallest valid one."""

    def load(text: str) -> Loaded:
        folder.profile("p", text)
        return folder.load("p")

    return load
