"""Runs over a group that end early: killed, interrupted, between two commits, without one host."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.hosts import operations
from deployctl.hosts.session import Call
from tests.hosts.served.grouped import GroupedHosts
from tests.hosts.served.many import needs_root

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="needs root for networks of their own"),
]
OTHER, ENDLESS = "serve.env.STAND_IN_START=0.3", "serve.env.STAND_IN_START=300"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[GroupedHosts]:
    """Two hosts of one group that serves."""
    with GroupedHosts(tmp_path) as hosts:
        record = hosts.up()
        assert record.exit_code == 0, [host.error for host in record.hosts]
        yield hosts


def currents(group: GroupedHosts) -> list[str | None]:
    call = Call(operations.releases.state, profile="stand", unit="server", last=0)
    return [machine.ask(call)[0]["current"] for machine in group.machines]


def test_a_killed_run_is_finished_by_the_next(serving: GroupedHosts) -> None:
    good = currents(serving)
    line = "host00: ready: started"
    with serving.start("up", "--json", "--set", OTHER, stops_at=line) as run:
        run.told(line)
        run.send_signal(signal.SIGKILL)
        run.output()
    after = serving.up(OTHER, lock_wait=300.0)
    assert after.exit_code == 0, [host.error for host in after.hosts]
    release = after.hosts[0].release
    assert currents(serving) == [release, release] != good
    assert [unit["release"] for unit in serving.units()] == [release, release]


def test_an_interrupt_brings_the_release_of_before_back_on_all_hosts(
    serving: GroupedHosts,
) -> None:
    good = currents(serving)
    with serving.start("up", "--json", "--set", ENDLESS) as run:
        for _ in range(2):
            run.told("ready: started")
        run.send_signal(signal.SIGINT)
        document = json.loads(run.output())
    assert run.returncode == 130
    assert [host["restored"] for host in document["hosts"]] == [True, True]
    assert currents(serving) == good
    assert [unit["release"] for unit in serving.units()] == good


@pytest.mark.parametrize("phase", ["host01: peers: started", "host00: acceptance: started"])
def test_an_interrupt_in_another_phase_leaves_the_release_of_before(
    serving: GroupedHosts, phase: str
) -> None:
    good = currents(serving)
    with serving.start("up", "--json", "--set", OTHER, stops_at=phase) as run:
        run.told(phase)
        run.go_on(signal.SIGINT)
        document = json.loads(run.output())
    assert run.returncode == 130, document
    assert currents(serving) == good
    units = serving.units()
    assert [unit["release"] for unit in units] == good
    assert [unit["state"] for unit in units] == ["running", "running"]
    again = serving.up(OTHER, lock_wait=300.0)
    assert again.exit_code == 0, [host.error for host in again.hosts]


def test_an_interrupt_of_the_first_deployment_leaves_nothing_that_runs(tmp_path: Path) -> None:
    with GroupedHosts(tmp_path) as hosts:
        with hosts.start("up", "--json", "--set", ENDLESS) as run:
            for _ in range(2):
                run.told("ready: started")
            run.send_signal(signal.SIGINT)
            run.output()
        assert run.returncode == 130
        assert hosts.processes() == [0, 0] and currents(hosts) == [None, None]


def test_the_heads_ledger_decides_what_is_current(serving: GroupedHosts) -> None:
    (good, _) = currents(serving)
    other = serving.up(OTHER)
    assert other.exit_code == 0, [host.error for host in other.hosts]
    pids = [unit["pid"] for unit in serving.units()]
    # As a run leaves it that dies after the head's commit and before the other's.
    back = Call(operations.releases.switch, profile="stand", unit="server", release=good)
    serving.machines[1].ask(back)
    again = serving.up(OTHER)
    assert again.exit_code == 0, [host.error for host in again.hosts]
    assert currents(serving) == [other.hosts[0].release] * 2
    assert [unit["pid"] for unit in serving.units()] == pids


def test_a_host_that_is_away_keeps_the_group_as_it_is_and_down_ends_the_rest(
    serving: GroupedHosts,
) -> None:
    serving.machines[1].sshd.stop()
    try:
        record = serving.up(OTHER)
        assert record.exit_code == 4, [host.error for host in record.hosts]
        assert "host01" in record.hosts[0].held_back
        down = serving.up(playbook="down")
        assert down.exit_code == 4 and down.hosts[0].error is None
    finally:
        serving.machines[1].sshd.start()
    serving.until("the other rank to end by itself", lambda units: not units[1]["members"])
    assert serving.up(playbook="down").exit_code == 0
    assert serving.processes() == [0, 0]
