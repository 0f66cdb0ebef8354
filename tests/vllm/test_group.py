"""A real vLLM over two hosts, tensor parallel, by `up`: each host has a network, an sshd and a root
of its own, and the environment that the demo was built in. Shared memory is this machine's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployctl.config.loader import load_playbook, load_profile
from deployctl.engine.connections.pool import Slots, each
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run.coordinator import run
from deployctl.engine.run.options import Options
from deployctl.hosts.session import Call
from deployctl.steps import registry
from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.served.grouped import Cable
from tests.hosts.served.host import STALE
from tests.hosts.served.many import Machine, needs_root

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="needs root for networks of their own"),
]


class RealGroup:
    """The demo as one group over two hosts."""

    skip: frozenset[str] = frozenset()

    def __init__(self, directory: Path, environment: Path) -> None:
        self._stack = ExitStack()
        cable = Cable(directory)
        self._stack.callback(cable.stop)
        self.machines, hosts = [], []
        for number in (1, 2):
            machine = Machine(directory / f"host{number}", f"host{number}")
            self._stack.callback(machine.stop)
            self.machines.append(machine)
            (machine.root / "environments").mkdir()
            # The very files, by hard links: none is changed once it is sealed.
            there = machine.root / "environments" / environment.name
            subprocess.run(["cp", "-al", environment, there], check=True)
            address = cable.connect(machine, number)
            hosts.append({**machine.host_settings(), "address": address})
        content = {
            "extends": "demo",
            "name": "stand",
            "hosts": hosts,
            "build": {"compile_bytecode": False},
            "serve": {"port": free_port(), "supervisor": "agent"},
            "group": {"tensor_parallel_size": 2, "rendezvous": "180s"},
        }
        self._file = directory / "stand.yaml"
        self._file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def up(self, *sets: str, playbook: str = "up") -> RunRecord:
        profile = load_profile(str(self._file), sets=list(sets), environ={}).profile
        return run(profile, load_playbook(playbook, registry.options()), Options(skip=self.skip))

    def units(self) -> list[dict[str, Any]]:
        call = Call("units.state", profile="stand", unit="server")
        return each(self.machines, lambda machine: machine.ask(call)[0], Slots())

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def group(tmp_path: Path, vllm_environment: Path) -> Iterator[RealGroup]:
    found = RealGroup(tmp_path, vllm_environment)
    try:
        yield found
    finally:
        found.close()


def test_tensor_parallel_over_two_hosts_and_a_stale_drafter(group: RealGroup) -> None:
    first = group.up()
    assert first.exit_code == 0, [host.error for host in first.hosts]
    head, worker = first.hosts
    steps = {step.step: step for step in head.steps}
    assert steps["acceptance"].evidence["verdict"] == "pass"
    assert [one["state"] for one in group.units()] == ["running", "running"]
    assert all(step.status != "failed" for step in worker.steps)

    stale = group.up(STALE)
    assert stale.exit_code == 10, [host.error for host in stale.hosts]
    assert [host.restored for host in stale.hosts] == [True, True]
    assert [one["release"] for one in group.units()] == [head.release] * 2
    # The release that is back runs in other processes, which its gates have not measured yet.
    asked = group.up()
    assert (asked.outcome, asked.exit_code) == ("passed", 0), [host.error for host in asked.hosts]

    # A worker of vLLM outlives its parent and would go on serving; it ends with its supervisor's.
    before = group.units()
    os.kill(before[1]["pid"], signal.SIGKILL)
    wait_for("both ranks to run again", lambda: _restarted(group, before), 300.0)
    left = [one["pid"] for unit in before for one in unit["members"]]
    assert not any(map(processes.is_alive, left))
    again = group.up()
    assert (again.outcome, again.exit_code) == ("passed", 0), [host.error for host in again.hosts]

    assert group.up(playbook="down").exit_code == 0
    assert [one["members"] for one in group.units()] == [[], []]


def _restarted(group: RealGroup, before: list[dict[str, Any]]) -> bool:
    now = group.units()
    return all(
        one["state"] == "running" and one["pid"] != old["pid"]
        for one, old in zip(now, before, strict=True)
    )
