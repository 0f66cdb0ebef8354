"""A host to build on and repositories to build from; the latter are made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.builds import project as projects
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.project import Project


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[BuildHost]:
    host = BuildHost(tmp_path / "root")
    yield host
    host.stop_jobs()
    host.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return projects.make(tmp_path / "project")
