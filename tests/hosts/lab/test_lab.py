"""The lab itself: a test that was inside it is outside again afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.lab.network import Lab

NETWORK = Path("/proc/thread-self/ns/net")

pytestmark = pytest.mark.lab


def test_inside_and_outside_again(whole_lab: Lab) -> None:
    before = NETWORK.readlink()
    with whole_lab.inside():
        assert NETWORK.readlink() != before
    assert NETWORK.readlink() == before
