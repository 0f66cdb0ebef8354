from __future__ import annotations

from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.lab.sshd import Sshd


def test_an_agent_over_ssh(sshd: Sshd, tmp_path):
    host = HostSettings(**sshd.host_settings(), root=str(tmp_path))
    with Session(transport(host), root=host.root) as session:
        assert session.root == str(tmp_path)
        session.call("files.write", path="@/a/b", text="x")
        assert session.call("files.read", path="@/a/b")["text"] == "x"
        assert session.round_trips == 2
