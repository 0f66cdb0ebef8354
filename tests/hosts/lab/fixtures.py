"""Fixtures of real hosts, for the tests of every room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.lab.sshd import Sshd


@pytest.fixture
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A private OpenSSH server on a loopback port."""
    server = Sshd(Path(tmp_path_factory.mktemp("sshd")))
    server.start()
    try:
        yield server
    finally:
        server.stop()
