"""The router as a unit of its own: installed, started, changed, stopped once it is unwanted."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
import yaml

from tests.hosts.lab.ports import free_port
from tests.hosts.served.host import ServedHost
from tests.hosts.served.replicas import PROGRAM, router_environment


def routed(host: ServedHost) -> int:
    """Give the profile a router; its port."""
    content = yaml.safe_load(host.profile_file.read_text("utf-8"))
    port = free_port()
    content["router"] = {"port": port, "metrics_port": free_port()}
    host.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return port


def installed(host: ServedHost) -> None:
    (host.root / "routers").mkdir(mode=0o700, parents=True)
    (host.root / "routers" / PROGRAM).symlink_to(router_environment())


def listed(host: ServedHost, port: int) -> list[str]:
    answer = host.ask("network.http", method="GET", url=f"http://127.0.0.1:{port}/list_workers")
    found: list[str] = json.loads(answer["body"])["urls"]
    return found


def steps(record: Any) -> dict[str, Any]:
    return {step.step: step for step in record.hosts[0].steps}


@pytest.mark.slow
def test_it_is_installed_once_from_the_package_index(served: ServedHost) -> None:
    port = routed(served)
    record = served.up()
    assert record.outcome == "deployed", record.hosts[0].error
    changes = [change.what for change in steps(record)["router"].changes]
    assert changes == [PROGRAM, "router"]
    assert (served.root / "routers" / PROGRAM / "bin" / "vllm-router").exists()
    assert listed(served, port) == [f"http://127.0.0.1:{served.port}"]
    assert served.up().outcome == "unchanged"


@pytest.mark.slow
def test_other_settings_start_it_again_with_its_replica(served: ServedHost) -> None:
    installed(served)
    port = routed(served)
    assert served.up().outcome == "deployed"
    before = served.unit("stand.router")
    record = served.up("router.policy=round_robin")
    assert record.outcome == "changed", record.hosts[0].error
    after = served.unit("stand.router")
    assert after["pid"] != before["pid"] and after["kept"]
    # It began with its replica: nobody had to add that.
    assert "join" not in steps(record)
    assert listed(served, port) == [f"http://127.0.0.1:{served.port}"]
    # Without one in the profile none runs.
    content = yaml.safe_load(served.profile_file.read_text("utf-8"))
    del content["router"]
    served.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    record = served.up()
    assert (record.outcome, served.unit("stand.router")["state"]) == ("changed", "stopped")
    assert "router" not in steps(served.up())


def test_its_port_is_not_taken_from_others(served: ServedHost) -> None:
    installed(served)
    port = routed(served)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        record = served.up()
    (host,) = record.hosts
    assert record.exit_code == 6 and host.error is not None
    assert f"port {port}, the router's, is held by pid" in host.error.what
    assert served.unit()["state"] == "absent"
