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


def test_a_node_keeps_its_hardware_address_as_containers_come_and_go(lab: Lab) -> None:
    def address() -> str:
        return lab.h1.run("cat", "/sys/class/net/vmbr0/address").stdout.strip()

    before = address()
    # Higher than any port of a container has: a bridge that follows its ports would change.
    lab.h1.run("ip", "link", "set", "eth0", "address", "fe:ff:ff:ff:ff:01")
    lab.container.stop()
    without = address()
    lab.container.start()
    assert (without, address()) == (before, before)
