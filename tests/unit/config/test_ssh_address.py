"""A machine as people name it to ssh, in its parts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployctl.config.host import SshSettings
from deployctl.config.ssh_address import SshAddress, split


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpu1", SshAddress("gpu1")),
        ("root@gpu1", SshAddress("gpu1", "root")),
        ("root@127.0.0.1:22922", SshAddress("127.0.0.1", "root", 22922)),
        ("ssh://root@gpu1:2222", SshAddress("gpu1", "root", 2222)),
        ("ssh://gpu1/", SshAddress("gpu1")),
        ("a@b@gpu1", SshAddress("gpu1", "a@b")),
        ("root@[fe80::1]:22", SshAddress("fe80::1", "root", 22)),
        ("ssh://[::1]", SshAddress("::1")),
        ("root@::1", SshAddress("::1", "root")),
    ],
)
def test_the_parts(name: str, parts: SshAddress) -> None:
    assert split(name) == parts


@pytest.mark.parametrize(
    "name", ["", "root@", "h:0", "h:65536", "h:x", "[::1", "[::1]22", "ssh://"]
)
def test_what_is_no_machine(name: str) -> None:
    with pytest.raises(ValueError, match=r"write USER@HOST|from 1 to 65535"):
        split(name)


def test_a_host_file_may_give_it_in_one_word() -> None:
    settings = SshSettings(address="ssh://root@gpu1:2222")
    assert (settings.address, settings.user, settings.port) == ("gpu1", "root", 2222)
    assert SshSettings(address="root@gpu1").address == "root@gpu1"
    with pytest.raises(ValidationError, match="write port once"):
        SshSettings(address="gpu1:2222", port=22)
