from __future__ import annotations

import pytest

from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.lab.network import Lab

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("via", ["pct", "lxc-attach"])
def test_an_agent_in_a_container_through_its_node(lab: Lab, via) -> None:
    host = HostSettings(**lab.container.host_settings(via))
    with Session(transport(host), root=host.root) as session:
        assert session.agent["hostname"] == "ct129"
        assert session.root == "/var/lib/deployctl"
