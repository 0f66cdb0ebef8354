from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from deployctl.config.host import HostSettings
from deployctl.hosts.container import ContainerTransport
from deployctl.hosts.interface import Transport
from deployctl.hosts.local import LocalTransport
from deployctl.hosts.ssh import SshTransport
from deployctl.hosts.transports import node_transport, transport

NODE = {"name": "pve", "ssh": {"address": "pve"}}


@pytest.mark.parametrize(
    ("settings", "kind", "node"),
    [
        ({"local": True}, LocalTransport, None),
        ({"ssh": {"address": "gpu"}}, SshTransport, None),
        ({"ssh": {"address": "gpu"}, "node": NODE}, SshTransport, "pve"),
        ({"container": {"id": "129"}, "node": NODE}, ContainerTransport, "pve"),
        (
            {"container": {"id": "129"}, "node": {"name": "here", "local": True}},
            ContainerTransport,
            "here",
        ),
    ],
)
def test_the_way_to_a_host_and_its_node(
    settings: dict[str, Any], kind: type[Transport], node: str | None
) -> None:
    host = HostSettings(name="gpu", **settings)
    way, under = transport(host), node_transport(host)
    assert isinstance(way, kind) and way.name == "gpu"
    assert (under.name if under is not None else None) == node


def test_a_local_host_needs_no_ssh_library() -> None:
    script = (
        "import sys; from deployctl.config.host import HostSettings; "
        "from deployctl.hosts.transports import transport; "
        "transport(HostSettings(name='x', local=True)); "
        "print(sorted({'paramiko', 'fabric', 'invoke'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
