"""Fixtures of real hosts, for the tests of every room; tests/conftest.py says what they offer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.lab.network import Lab, new_directory, sweep
from tests.hosts.lab.sshd import Sshd

NEEDED = ("sshd", "lxc-start", "nft", "ip", "unshare", "setpriv", "nsenter", "ss")


@pytest.fixture
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A private OpenSSH server on a loopback port."""
    server = Sshd(Path(tmp_path_factory.mktemp("sshd")))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def whole_lab() -> Iterator[Lab]:
    """The lab's machines for the whole test run; tests take `lab`."""
    if os.geteuid() != 0:
        pytest.skip("the lab's machines need root")
    missing = [name for name in NEEDED if shutil.which(name, path=_PATH) is None]
    if missing:
        # Not a skip: on a machine that should prove it, nothing would have been proven.
        pytest.fail(f"{', '.join(missing)} missing: run scripts/packages test")
    sweep()
    lab = Lab(new_directory())
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


@pytest.fixture
def lab(whole_lab: Lab) -> Iterator[Lab]:
    """The lab, with this test inside its network, and everything as it was afterwards."""
    try:
        with whole_lab.inside():
            yield whole_lab
    finally:
        whole_lab.restore()


_PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
