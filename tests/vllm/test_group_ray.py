"""A real vLLM over two hosts by the real Ray, tensor parallel, token required, by `up`: each host
has a network, an sshd and a root of its own. Their GPUs are a stand-in's
(`ray_platform_stand_in`), and shared memory is this machine's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from deployctl.cli.running import playbook_of
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
from tests.vllm import ray_platform_stand_in

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="needs root for networks of their own"),
]


BUILD = {"compile_bytecode": False}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of the demo with Ray, as deployctl builds and verifies it."""
    directory = tmp_path_factory.mktemp("ray")
    there = {"name": "here", "local": True, "root": str(directory / "root")}
    content = {
        "extends": "demo",
        "name": "built",
        "hosts": [there],
        "build": BUILD,
        "group": {"engine": "ray", "ray": {"address": "127.0.0.1:6379"}},
    }
    path = directory / "built.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    profile = load_profile(str(path), environ={}).profile
    record = run(profile, playbook_of("preflight", "build", "verify"), Options())
    assert record.exit_code == 0, errors(record)
    steps = {step.step: step.evidence for step in record.hosts[0].steps}
    assert steps["verify"]["packages"]["ray"] == "2.60.0"
    assert steps["verify"]["extensions"]["ray._raylet"] is None
    return directory / "root" / "environments" / str(steps["build"]["key"])


class RayGroup:
    """The demo as one group over two hosts by Ray."""

    def __init__(self, directory: Path, environment: Path) -> None:
        self._stack = ExitStack()
        self.cable = Cable(directory)
        self._stack.callback(self.cable.stop)
        plugin = ray_platform_stand_in.install(directory / "plugin")
        self.machines: list[Machine] = []
        hosts = []
        for number in (1, 2):
            machine = Machine(directory / f"host{number}", f"host{number}", seen=directory / "root")
            self._stack.callback(machine.stop)
            self.machines.append(machine)
            (machine.root / "environments").mkdir()
            # The very files, by hard links: none is changed once it is sealed.
            copy = machine.root / "environments" / environment.name
            subprocess.run(["cp", "-al", environment, copy], check=True)
            address = self.cable.connect(machine, number)
            hosts.append({**machine.host_settings(), "address": address})
        content = {
            "extends": "demo",
            "name": "stand",
            "hosts": hosts,
            "build": BUILD,
            "serve": {
                "port": free_port(),
                "supervisor": "agent",
                # Ray gives out no more GPUs than are named.
                "env": {"PYTHONPATH": str(plugin), "CUDA_VISIBLE_DEVICES": "0"},
            },
            "group": {"engine": "ray", "tensor_parallel_size": 2, "rendezvous": "120s"},
        }
        self._file = directory / "stand.yaml"
        self._file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def up(self, *sets: str, playbook: str = "up") -> RunRecord:
        profile = load_profile(str(self._file), sets=list(sets), environ={}).profile
        return run(profile, load_playbook(playbook, registry.options()), Options())

    def units(self) -> list[dict[str, Any]]:
        call = Call("units.state", profile="stand", unit="server")
        return each(self.machines, lambda machine: machine.ask(call)[0], Slots())

    def log(self, rank: int) -> str:
        call = Call("units.log", profile="stand", unit="server", offset=-(1 << 20), limit=1 << 20)
        return str(self.machines[rank].ask(call)[0]["text"])

    def secret(self, rank: int) -> tuple[str, Path]:
        """The token of a node's cluster, and the folder that the node has of its own."""
        server = self.machines[rank].root / "profiles/stand/units/server/server"
        secrets, spec = (
            json.loads((server / name).read_text("utf-8")) for name in ("secrets.json", "spec.json")
        )
        return str(secrets["DEPLOYCTL_RAY_TOKEN"]), Path(spec["scratch"])

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def group(tmp_path: Path, environment: Path) -> Iterator[RayGroup]:
    found = RayGroup(tmp_path, environment)
    try:
        yield found
    finally:
        found.close()


def errors(record: RunRecord) -> list[str]:
    return [str(host.error) for host in record.hosts]


@pytest.fixture
def foreign(
    group: RayGroup, environment: Path, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's cluster on the head's machine."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    argv = [str(environment / "bin/ray"), "start", "--head", "--block", "--port=7000"]
    more = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--include-dashboard=false"]
    # Sockets lie in it, whose names are short.
    with TemporaryDirectory(dir="/tmp") as short:
        env = {**os.environ, "RAY_TMPDIR": short, "RAY_USAGE_STATS_ENABLED": "0"}
        enter = group.machines[0].enter([*argv, *more])
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(enter, env=env, stdout=log, stderr=log) as process,
        ):
            text = folder / "log"
            wait_for("their cluster", lambda: "Ray runtime started" in text.read_text("utf-8"))
            yield process
            process.terminate()
            process.wait()


def test_tensor_parallel_by_ray_over_two_hosts_and_a_stale_drafter(
    group: RayGroup, foreign: subprocess.Popen[bytes]
) -> None:
    first = group.up()
    assert first.exit_code == 0, errors(first)
    head, worker = first.hosts
    steps = {step.step: step for step in head.steps}
    assert steps["acceptance"].evidence["verdict"] == "pass"
    assert all(step.status != "failed" for step in worker.steps)
    before = group.units()
    assert [one["state"] for one in before] == ["running", "running"]
    names = [one["comm"] for one in before[1]["members"]]
    assert "raylet" in names, names
    for rank in (0, 1):
        token, folder = group.secret(rank)
        assert (folder / "token").stat().st_mode & 0o777 == 0o600
        assert token not in group.log(rank) and token not in str(before)

    stale = group.up(STALE)
    assert stale.exit_code == 10, errors(stale)
    assert [host.restored for host in stale.hosts] == [True, True]
    assert [one["release"] for one in group.units()] == [head.release] * 2

    folders = [group.secret(rank)[1] for rank in (0, 1)]
    left = [one["pid"] for unit in group.units() for one in unit["members"]]
    assert group.up(playbook="down").exit_code == 0
    assert [one["members"] for one in group.units()] == [[], []]
    assert not any(map(processes.is_alive, left)) and not any(map(Path.exists, folders))
    assert foreign.poll() is None, "a cluster that is not ours goes on"
