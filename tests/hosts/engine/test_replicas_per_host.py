"""Several replicas on one host, behind the real vllm-router: rolled one after the other, and known
to every command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.hosts.session import Call
from tests.hosts.engine.test_rolling import OTHER, TRACKS, lossless
from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root
from tests.hosts.served.replicas import Replicas

# The same as data: tests/unit/config/test_replicas.py, test_routing.py in tests/unit/engine.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="namespaces need root"),
]
TWO = {"per_host": 2}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Replicas]:
    """One host with two replicas that serve, and a router."""
    with Replicas(tmp_path, 1, replicas=TWO) as found:
        record = found.up(TRACKS)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        yield found


def units(found: Replicas, machine: int = 0) -> dict[str, Any]:
    """The servers of a machine, by unit."""
    (listed,) = found.machines[machine].ask(Call("units.listing", profile="stand"))
    return {unit: one for unit, one in listed.items() if unit.startswith("server")}


def releases(found: Replicas) -> list[str]:
    return [unit["release"] for unit in units(found).values()]


def said(found: Replicas, *argv: str) -> Any:
    with found.start(*argv, "--json") as run:
        return json.loads(run.output())


def test_two_on_a_host_roll_without_a_lost_request(host: Replicas) -> None:
    first, second = host.port, host.port + 1
    listed = {f"127.0.0.1:{first}": True, f"127.0.0.1:{second}": True}
    assert host.listed() == listed
    before = releases(host)
    assert len(before) == 2 and len({*before}) == 1
    record = host.up(TRACKS)
    assert record.outcome == "unchanged", [one.error for one in record.hosts]
    with host.asking() as became:
        record = host.up(TRACKS, OTHER)
    assert record.outcome == "deployed", [one.error for one in record.hosts]
    assert [(one.host, one.unit, one.wave) for one in record.hosts] == [
        ("host00/1", "server", 1),
        ("host00/2", "server-2", 2),
    ]
    assert lossless(became), became
    after = releases(host)
    assert not {*before} & {*after} and len({*after}) == 1 and host.listed() == listed
    with host.asking() as became:
        record = host.up(TRACKS, OTHER, STALE)
    assert (record.outcome, record.exit_code) == ("rolled-back", 10)
    assert [bool(one.held_back) for one in record.hosts] == [False, True]
    assert lossless(became), became
    with host.asking() as became:
        record = host.up(playbook="rollback")
    assert record.outcome == "deployed", [one.error for one in record.hosts]
    assert lossless(became) and releases(host) == before and host.listed() == listed


def test_every_command_knows_each_of_them(host: Replicas) -> None:
    found = said(host, "status")
    assert [(one["host"], one["unit"], one["healthy"]) for one in found["hosts"]] == [
        ("host00/1", "stand", True),
        ("host00/2", "stand.server-2", True),
    ]
    assert [sorted(one["units"]) for one in found["hosts"]] == [["router", "server"], ["server-2"]]
    found = said(host, "history")
    assert [[run["unit"] for run in one["runs"]] for one in found["hosts"]] == [
        ["server"],
        ["server-2"],
    ]
    with host.start("logs", "--host", "host00/2") as run:
        assert run.output() and run.wait() == 0
    assert [one["host"] for one in said(host, "gc")["hosts"]] == ["host00"]
    before = {unit: one["pid"] for unit, one in units(host).items()}
    again = ("run", "redeploy", "--host", "host00/2", "--set", TRACKS)
    with host.asking() as became, host.start(*again) as run:
        run.output()
    assert run.returncode == 0 and lossless(became), became
    after = {unit: one["pid"] for unit, one in units(host).items()}
    assert after["server"] == before["server"] and after["server-2"] != before["server-2"]
    with host.asking() as became, host.start("down", "--host", "host00/2") as run:
        run.output()
    assert run.returncode == 0 and lossless(became), became
    assert [one["state"] for one in units(host).values()] == ["running", "stopped"]
    assert host.listed() == {f"127.0.0.1:{host.port}": True}
    with host.start("down") as run:
        run.output()
    assert run.returncode == 0
    assert {one["state"] for one in units(host).values()} == {"stopped"}
    assert host.router()["state"] == "stopped"


def test_fewer_are_left_and_more_are_added_without_a_lost_request(host: Replicas) -> None:
    with host.asking() as became:
        record = host.up(TRACKS, "replicas.per_host=1")
    assert record.exit_code == 0, [one.error for one in record.hosts]
    assert lossless(became), became
    assert [one["state"] for one in units(host).values()] == ["running", "stopped"]
    assert host.listed() == {f"127.0.0.1:{host.port}": True}
    first = units(host)["server"]["pid"]
    with host.asking() as became:
        record = host.up(TRACKS, "replicas.per_host=3")
    assert record.outcome == "deployed", [one.error for one in record.hosts]
    assert lossless(became), became
    assert len(host.listed()) == 3 and units(host)["server"]["pid"] == first


def test_two_on_each_of_two_hosts(tmp_path: Path) -> None:
    with Replicas(tmp_path, 2, replicas=TWO) as found:
        record = found.up(TRACKS)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        assert len(found.listed()) == 4 and all(found.listed().values())
        with found.asking() as became:
            record = found.up(TRACKS, OTHER)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        assert [host.wave for host in record.hosts] == [1, 2, 3, 4]
        assert lossless(became), became
