"""Supervision by systemd, in a real container whose PID 1 it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.config.router import RouterSettings
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from deployctl.steps.identity import PROXY, ROUTER
from deployctl.steps.interface import Deployment
from deployctl.steps.servers import agent_programs
from tests.hosts.lab.machines import Container
from tests.hosts.lab.network import Lab
from tests.hosts.test_units import NAME, state, until

# They share a container, which boots.
pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("units systemd")]
SERVER = Path(__file__).with_name("server_stand_in.py")
TOY = {"profile": NAME, "unit": "server"}
UNIT = f"deployctl-{NAME}.service"


@pytest.fixture(scope="module")
def container(whole_lab: Lab) -> Iterator[Container]:
    container = whole_lab.make_systemd_container(whole_lab.h2, 131)
    container.start()
    yield container
    container.stop()


@pytest.fixture
def session(lab: Lab, container: Container) -> Iterator[Session]:
    host = HostSettings(**container.host_settings("lxc-attach"))
    with Session(transport(host)) as session:
        yield session
        if container.state() == "RUNNING":
            with Session(transport(host)) as last:
                last.call("units.stop", **TOY)


def start(session: Session, *words: str) -> dict[str, object]:
    argv = ["python3", "-c", SERVER.read_text(), *words]
    found: dict[str, object] = session.call("units.start", **TOY, argv=argv, release="r1")
    return found


ROUTER_STAND_IN = """\
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = " ".join(sys.argv[1:]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
HTTPServer(("127.0.0.1", 9001), Handler).serve_forever()
"""
"""It answers everything with its command line."""


def test_a_router_and_its_proxy_are_services(session: Session, container: Container) -> None:
    """Each starts at boot; a router that is killed comes back with the replicas in its file."""
    router = RouterSettings(port=9000, private_port=9001)
    wanted = routed(router)
    program = {"argv": ["/usr/bin/python3", "-c", ROUTER_STAND_IN], "option": "--replicas"}
    listens = {"host": "127.0.0.1", "port": 9000, "target": 9001}
    for unit, content in ((ROUTER, {**program, "replicas": ["http://a:1"]}), (PROXY, listens)):
        file = f"@/profiles/{NAME}/{unit}.json"
        session.call("files.write", path=file, text=json.dumps(content))
        agent_programs.start(session, wanted, unit, file, unit)
    services = {unit: f"deployctl-{NAME}:{unit}.service" for unit in (ROUTER, PROXY)}
    for service in services.values():
        shown = systemctl(container, "show", service, "--property=ActiveState,UnitFileState")
        assert "ActiveState=active" in shown and "UnitFileState=enabled" in shown
        checked = container.run(
            "systemd-analyze", "verify", f"/etc/systemd/system/{service}", check=False
        )
        # It exits with 0 whatever it finds.
        assert service not in checked.stderr, checked.stderr

    def answer(path: str) -> tuple[int | None, str]:
        found = session.call("network.http", method="GET", url=f"http://127.0.0.1:9000{path}")
        return found["status"], found["body"]

    until("an answer through both", lambda: answer("/v1/models") == (200, "--replicas http://a:1"))
    assert answer("/workers")[0] == 404
    session.call("units.keep", profile=NAME, unit=ROUTER)
    changed = {**program, "replicas": ["http://a:1", "http://b:1"]}
    path = f"@/profiles/{NAME}/router.json"
    session.call("files.write", path=path, text=json.dumps(changed))
    pid = session.call("units.state", profile=NAME, unit=ROUTER)["pid"]
    container.run("kill", "-KILL", str(pid))
    until("the router with both", lambda: answer("/v1/models")[1].endswith("http://b:1"), 60)
    for unit, service in services.items():
        session.call("units.stop", profile=NAME, unit=unit, grace=2)
        shown = systemctl(container, "show", service, "--property=ActiveState,UnitFileState")
        assert "ActiveState=inactive" in shown and "UnitFileState=disabled" in shown


def routed(router: RouterSettings) -> Deployment:
    profile = Profile.model_validate(
        {
            "name": NAME,
            "hosts": [{"name": "here", "local": True}],
            "model": {"path": "/m", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123},
            "router": router.model_dump(),
        }
    )
    return Deployment(profile, profile.hosts[0])


def systemctl(container: Container, *argv: str) -> str:
    return container.run("systemctl", "--no-pager", *argv, check=False).stdout


def journal(container: Container) -> str:
    return container.run("journalctl", "-u", UNIT, check=False).stdout


def begin_multi_user(container: Container) -> str:
    systemctl(container, "start", "--no-block", "multi-user.target")
    return systemctl(container, "list-jobs") + systemctl(container, "list-units", "--type=target")


def test_the_server_is_a_unit_that_starts_at_boot(session: Session, container: Container) -> None:
    started = start(session, "leave-orphan")
    assert (started["state"], started["kind"]) == ("running", "systemd")
    shown = systemctl(container, "show", UNIT, "--property=ActiveState,UnitFileState,KillMode")
    assert "ActiveState=active" in shown and "UnitFileState=enabled" in shown
    group = Path(f"/proc/{started['pid']}/cgroup")
    assert UNIT in container.run("cat", str(group)).stdout
    until("the journal", lambda: "running {" in journal(container))
    assert session.call("units.stop", **TOY)["state"] == "stopped"
    shown = systemctl(container, "show", UNIT, "--property=ActiveState,UnitFileState")
    assert "ActiveState=inactive" in shown and "UnitFileState=disabled" in shown
    assert state(session)["members"] == []


def test_it_outlives_the_connection_that_started_it(
    lab: Lab, container: Container, session: Session
) -> None:
    pid = start(session)["pid"]
    # The node's sshd drops every connection, the one into the container with them.
    container.node.kill_sessions()
    host = HostSettings(**container.host_settings("lxc-attach"))
    with Session(transport(host)) as again:
        found = state(again)
        assert (found["state"], found["pid"], found["supervised"]) == ("running", pid, True)


def test_an_end_with_status_0_is_a_failure_here_too(session: Session) -> None:
    start(session, "seconds=0.2", "exit=0", "leave-orphan")
    found = until("its end", lambda: s if (s := state(session))["state"] == "exited" else None)
    assert found["rc"] == 0
    until("nobody left", lambda: not state(session)["members"])


def test_a_killed_supervisor_comes_back_with_a_new_server(
    session: Session, container: Container
) -> None:
    first = start(session, "leave-orphan")
    main = systemctl(container, "show", UNIT, "--property=MainPID").strip().partition("=")[2]
    container.run("kill", "-KILL", main)

    def again() -> object:
        found = state(session)
        return found["state"] == "running" and found["pid"] != first["pid"] and found["supervised"]

    until("a new supervisor and a new server", again, 120)
    look = ("ps", "-o", "pid=", "-p", str(first["pid"]))
    until("the old one gone", lambda: not container.run(*look, check=False).stdout.strip())


def test_what_waits_is_a_service_of_its_own_and_serves_as_that(
    session: Session, container: Container
) -> None:
    """Two services take turns, and only the one that serves starts at boot."""
    first = start(session)
    argv = ["python3", "-c", SERVER.read_text()]
    launcher = Path(__file__).with_name("warm_stand_in.py").read_text()
    for turn, before in (("a", UNIT), ("b", f"deployctl-{NAME}::a.service")):
        service = f"deployctl-{NAME}::{turn}.service"
        release = f"r-{turn}"
        wish = {"argv": argv, "release": release, "launcher": launcher}
        warmed = session.call("units.warm", **TOY, **wish, python="/usr/bin/python3")
        assert state(session)["pid"] == first["pid"]
        group = container.run("cat", f"/proc/{warmed['pid']}/cgroup").stdout
        shown = systemctl(container, "show", service, "--property=ActiveState,UnitFileState")
        assert service in group
        assert "ActiveState=active" in shown and "UnitFileState=enabled" not in shown
        session.call("units.stop", **TOY, grace=1, spare=True)
        first = session.call("units.start", **TOY, argv=argv, release=release)
        assert (first["pid"], first["plain"], first["kind"]) == (warmed["pid"], None, "systemd")
        # Without a reload, systemd learns of links at the next boot.
        wanted = container.run("ls", "/etc/systemd/system/multi-user.target.wants").stdout
        assert [name for name in wanted.split() if NAME in name] == [service]
        gone = systemctl(container, "show", before, "--property=ActiveState")
        assert "ActiveState=inactive" in gone
    main = systemctl(container, "show", service, "--property=MainPID").strip().partition("=")[2]
    container.run("kill", "-KILL", main)

    def again() -> object:
        found = state(session)
        return found["state"] == "running" and found["pid"] != first["pid"] and found["supervised"]

    until("a plain start by systemd", again, 120)
    assert state(session)["warm"] is None
    assert session.call("units.stop", **TOY)["state"] == "stopped"
    assert "ActiveState=inactive" in systemctl(container, "show", service)


def test_it_starts_again_with_the_container(
    lab: Lab, container: Container, session: Session
) -> None:
    first = start(session)
    container.stop()
    container.start()
    # The lab boots to basic.target; a machine goes on to this one.
    until("systemd", lambda: "multi-user" in begin_multi_user(container))
    host = HostSettings(**container.host_settings("lxc-attach"))

    def booted() -> bool:
        with Session(transport(host)) as again:
            found = state(again)
            return bool(found["state"] == "running" and found["start"] != first["start"])

    until("the server after the boot", booted, 120)
    with Session(transport(host)) as again:
        assert again.call("units.stop", **TOY)["state"] == "stopped"


def test_a_unit_of_before_does_not_come_back_at_boot(
    session: Session, container: Container
) -> None:
    argv = ["sh", "-c", "exit 1"]
    session.call("units.start", **TOY, argv=argv, release="r1")
    until("failed", lambda: state(session)["state"] == "failed")
    assert "enabled" in systemctl(container, "is-enabled", UNIT)
    argv = ["sleep", "60"]
    started = session.call("units.start", **TOY, argv=argv, release="r2", supervisor="agent")
    assert (started["state"], started["kind"]) == ("running", "agent")
    session.call("units.stop", **TOY, grace=1)
    assert "enabled" not in systemctl(container, "is-enabled", UNIT)
