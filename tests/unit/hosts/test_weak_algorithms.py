"""What OpenSSH no longer offers is not offered by us either."""

from __future__ import annotations

import socket
from typing import Any

import paramiko
import pytest

from deployctl.config.host import SshSettings
from deployctl.hosts.ssh_config import Endpoint
from deployctl.hosts.ways import ssh


def test_no_weak_algorithm_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[paramiko.Transport] = []

    ours, theirs = socket.socketpair()

    class Opened(Exception):
        """As far as this test goes."""

    class Connection:
        def __init__(self, *_: Any, connect_kwargs: dict[str, Any], **__: Any) -> None:
            made.append(connect_kwargs["transport_factory"](ours))
            raise Opened

    monkeypatch.setattr(ssh, "Connection", Connection)
    endpoint = Endpoint("far", "far", 22, "me")
    way = ssh.SshTransport("far", SshSettings(address="far"))
    with pytest.raises(Opened):
        way._link(endpoint, SshSettings(address="far"), None)
    security = made[0].get_security_options()
    offered = [*security.ciphers, *security.digests, *security.kex]
    assert not [one for one in offered if "3des" in one or "md5" in one]
    assert security.ciphers and security.digests and security.kex
    for end in (made[0], ours, theirs):
        end.close()
