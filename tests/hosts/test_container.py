"""A real container behind a node's stand-in for pct, and behind lxc-attach itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest

from deployctl.config.host import ContainerSettings, HostSettings, SshSettings
from deployctl.errors import HostError, NoPython, Unreachable
from deployctl.hosts.interface import Ending
from deployctl.hosts.session import Limits, Session
from deployctl.hosts.transports import node_transport, transport
from deployctl.hosts.tunnel import Tunnel
from deployctl.hosts.ways.container import ContainerTransport
from deployctl.hosts.ways.ssh import SshTransport
from tests.hosts.builds.waiting import until
from tests.hosts.lab.network import Lab

pytestmark = pytest.mark.lab
Via = Literal["pct", "lxc-attach"]
WAYS = pytest.mark.parametrize("via", ["pct", "lxc-attach"])

HARD = [
    json.dumps({"model": "/root/models/it's a model", "cost": '$HOME `id` \\n "quoted"'}),
    "",
    "*",
    "a\nb",
    "--",
    "-x",
    "é\t\x01",
]
ECHO = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(7)"


def reach(settings: dict[str, object], python: str = "python3", start: float = 60) -> Session:
    host = HostSettings.model_validate(settings)
    return Session(transport(host), root=host.root, python=python, limits=Limits(start=start))


@pytest.fixture
def node(lab: Lab) -> Iterator[SshTransport]:
    way = SshTransport("h1", SshSettings(**lab.h1.settings()))
    yield way
    way.close()


@WAYS
def test_an_agent_in_a_container_through_its_node(lab: Lab, via: Via) -> None:
    host = HostSettings(**lab.container.host_settings(via))
    with Session(transport(host)) as inside:
        assert inside.agent["hostname"] == "ct129"
        assert inside.agent["home"] == "/root"
        assert inside.root == "/var/lib/deployctl"
        inside.call("files.write", path="@/here", text="x")
    node = node_transport(host)
    assert node is not None
    with Session(node) as outside:
        assert outside.agent["hostname"] == "h1"
        assert outside.call("files.read", path="@/here")["exists"] is False


@WAYS
def test_an_argv_through_three_shells(node: SshTransport, via: Via) -> None:
    way = ContainerTransport("ct129", ContainerSettings(id="129", via=via), node)
    channel = way.open(["python3", "-c", ECHO, *HARD])
    output = b""
    while data := channel.receive():
        output += data
    assert json.loads(output) == HARD
    assert channel.ending() == Ending(7, "")


def test_what_pct_itself_is_given(lab: Lab, node: SshTransport) -> None:
    # A stand-in that dumps its argv, in the node's first place of PATH.
    lab.h1.run("sh", "-c", f'printf %s "$1" >{DUMP}; chmod 755 {DUMP}', "sh", DUMPING_PCT)
    try:
        way = ContainerTransport("ct129", ContainerSettings(id="129"), node)
        channel = way.open(["program", *HARD])
        output = b""
        while data := channel.receive():
            output += data
        assert json.loads(output) == ["exec", "129", "--", "program", *HARD]
        assert channel.ending().status == 7
    finally:
        lab.h1.run("rm", DUMP)


DUMP = "/usr/local/sbin/pct"
DUMPING_PCT = f"#!/usr/bin/env python3\n{ECHO}\n"


def test_pct_is_found_though_the_nodes_shell_does_not(lab: Lab, node: SshTransport) -> None:
    channel = node.open(["sh", "-c", "PATH=/usr/bin:/bin; command -v pct; echo $?"])
    assert channel.receive() == b"127\n"
    with reach(lab.container.host_settings()) as session:
        assert session.agent["hostname"] == "ct129"


def test_the_nodes_environment_does_not_leak(lab: Lab) -> None:
    with reach(lab.container.host_settings()) as session:
        pid = session.agent["pid"]
        environment = session.call("files.read", path=f"/proc/{pid}/environ")["text"]
    assert "SSH_CONNECTION" not in environment
    assert "HOME=/root" in environment


class TestFailures:
    @WAYS
    def test_it_does_not_exist(self, lab: Lab, via: Via) -> None:
        settings = lab.container.host_settings(via)
        settings["container"]["id"] = "999"
        with pytest.raises(Unreachable, match="container 999 on h1 does not exist") as caught:
            reach(settings)
        assert caught.value.host == "ct129" and "lxc-ls" in caught.value.next

    @WAYS
    def test_it_is_not_running(self, lab: Lab, via: Via) -> None:
        lab.container.stop()
        with pytest.raises(Unreachable, match="container 129 on h1 is not running") as caught:
            reach(lab.container.host_settings(via))
        start = {"pct": "pct start 129", "lxc-attach": "lxc-start -n 129"}[via]
        assert start in caught.value.next

    @WAYS
    def test_it_is_frozen(self, lab: Lab, via: Via) -> None:
        lab.container.freeze()
        began = time.monotonic()
        with pytest.raises(Unreachable, match="container 129 on h1 is frozen") as caught:
            reach(lab.container.host_settings(via), start=1.5)
        assert time.monotonic() - began < 50
        thaw = {"pct": "pct resume 129", "lxc-attach": "lxc-unfreeze -n 129"}[via]
        assert thaw in caught.value.next

    @WAYS
    def test_it_has_no_python(self, lab: Lab, via: Via) -> None:
        with pytest.raises(NoPython, match="no python9 on the host"):
            reach(lab.container.host_settings(via), python="python9")

    def test_the_node_is_no_node(self, lab: Lab) -> None:
        lab.h2.run("mv", "/usr/sbin/pct", "/usr/sbin/pct.away")
        try:
            with pytest.raises(Unreachable, match="h2 has no pct"):
                reach(lab.container.host_settings(node=lab.h2.host_settings()))
        finally:
            lab.h2.run("mv", "/usr/sbin/pct.away", "/usr/sbin/pct")

    def test_the_node_is_down(self, lab: Lab) -> None:
        lab.h1.stop_sshd()
        with pytest.raises(HostError, match=r"10\.99\.0\.1 port 22"):
            reach(lab.container.host_settings())


def test_a_tunnel_into_a_container(lab: Lab) -> None:
    # The served port is the container's own: no other way leads to its loopback.
    lab.container.run("sh", "-c", "mkdir -p /srv/web; echo inside >/srv/web/who")
    serve = "cd /srv/web; setsid python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 &"
    lab.container.run("sh", "-c", serve)
    with reach(lab.container.host_settings()) as session:
        until(lambda: session.call("network.listener", port=8123)["listening"])
        with Tunnel(session, "127.0.0.1", 8123) as tunnel, httpx.Client(timeout=60) as client:
            assert client.get(f"{tunnel.url}/who").text == "inside\n"
        (holder,) = session.call("network.listener", port=8123)["holders"]
        assert "http.server" in holder["command"]
    lab.container.run("kill", str(holder["pid"]))


@pytest.mark.skipif(
    not Path("/lib/systemd/systemd").exists(), reason="systemd is not installed here"
)
def test_a_container_with_systemd(lab: Lab) -> None:
    container = lab.make_systemd_container(lab.h2, 130)
    container.start()
    try:
        with reach(container.host_settings()) as session:
            assert session.call("processes.describe", pid=1)["comm"] == "systemd"
    finally:
        container.stop()
