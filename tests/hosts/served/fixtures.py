"""Fixtures of hosts that serve the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.served.host import ServedHost
from tests.hosts.served.webhook import Webhook


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedHost]:
    """A host with nothing deployed yet."""
    host = ServedHost(tmp_path)
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """Somebody to be told."""
    server = Webhook()
    yield server
    server.close()
