"""One model over two hosts by Ray, which is a stand-in, as is the server: started, judged and
restored as one, with a token that shows nowhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.hosts import operations
from deployctl.hosts.session import Call
from tests.hosts.engine.test_group import errors
from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.served.grouped import RAY, RayHosts
from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root

pytestmark = pytest.mark.skipif(needs_root(), reason="needs root for networks of their own")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[RayHosts]:
    """Two hosts of one group, on which nothing was deployed."""
    with RayHosts(tmp_path) as hosts:
        yield hosts


@pytest.fixture
def serving(group: RayHosts) -> RayHosts:
    """The same, once it serves."""
    record = group.up()
    assert record.exit_code == 0, errors(record)
    return group


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's cluster on this machine."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("theirs", encoding="ascii")
    argv = [sys.executable, str(RAY), "start", "--head", "--block", "--node-ip-address=127.0.0.1"]
    env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    ports = [f"--port={free_port()}", "--num-gpus=1"]
    with subprocess.Popen([*argv, *ports], env=env) as process:
        yield process
        process.kill()


def currents(group: RayHosts) -> list[str | None]:
    call = Call(operations.releases.state, profile="stand", unit="server", last=0)
    return [machine.ask(call)[0]["current"] for machine in group.machines]


def server(group: RayHosts, rank: int) -> Path:
    return group.machines[rank].root / "profiles/stand/units/server/server"


def scratch(group: RayHosts, rank: int) -> Path:
    """The folder that a node has of its own."""
    return Path(json.loads((server(group, rank) / "spec.json").read_text("utf-8"))["scratch"])


def test_up_and_down(group: RayHosts, foreign: subprocess.Popen[bytes]) -> None:
    first = group.up()
    assert first.exit_code == 0, errors(first)
    assert currents(group) == [first.hosts[0].release] * 2
    head, worker = (unit["argv"] for unit in group.units())
    assert head[head.index("--distributed-executor-backend") + 1] == "ray"
    assert "--" not in worker and "serve" not in worker
    secrets = [server(group, rank) / "secrets.json" for rank in (0, 1)]
    tokens = {json.loads(path.read_text("utf-8"))["DEPLOYCTL_RAY_TOKEN"] for path in secrets}
    (token,) = tokens
    folders = [scratch(group, rank) for rank in (0, 1)]
    assert [(folder / "token").read_text("ascii") for folder in folders] == [token] * 2
    shown = [str(head), str(worker), str(first), *map(server_log, (group, group), (0, 1))]
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert not [text for text in [*shown, commands.stdout] if token in text]
    assert group.up(playbook="down").exit_code == 0
    assert group.processes() == [0, 0] and not any(folder.exists() for folder in folders)
    assert foreign.poll() is None, "it is not ours"


def server_log(group: RayHosts, rank: int) -> str:
    return (server(group, rank) / "server.log").read_text("utf-8")


@pytest.mark.slow
def test_a_failed_gate_restores_all_nodes(serving: RayHosts) -> None:
    (good, _) = currents(serving)
    stale = serving.up(STALE)
    assert stale.exit_code == 10, errors(stale)
    assert [host.restored for host in stale.hosts] == [True, True]
    assert [unit["release"] for unit in serving.units()] == [good, good] == currents(serving)


@pytest.mark.slow
def test_a_node_that_is_killed_ends_all_and_all_start_again(serving: RayHosts) -> None:
    before = serving.units()
    os.kill(before[1]["pid"], signal.SIGKILL)
    serving.until(
        "both to run again",
        lambda units: all(
            unit["state"] == "running" and unit["pid"] != old["pid"]
            for unit, old in zip(units, before, strict=True)
        ),
    )
    left = [one["pid"] for unit in before for one in unit["members"]]
    assert not any(map(processes.is_alive, left))
    again = serving.up()
    assert (again.outcome, again.exit_code) == ("passed", 0), errors(again)


@pytest.mark.slow
def test_a_node_that_never_joins_is_named_within_the_bound(group: RayHosts) -> None:
    group.write(group={"engine": "ray", "tensor_parallel_size": 2, "rendezvous": "2s"})
    record = group.up("serve.env.RAY_STAND_IN_FAULT=late")
    assert record.exit_code == 7, errors(record)
    assert "rank 1 (host01) did not come to the rendezvous within 2 s" in errors(record)[0]
    assert group.processes() == [0, 0]


@pytest.mark.slow
def test_another_version_of_python_is_told_with_its_cause(group: RayHosts) -> None:
    record = group.up("serve.env.RAY_STAND_IN_FAULT=version")
    assert record.exit_code == 7, errors(record)
    assert "another version of Ray or Python: Ray 2.60.0, Python 3.11.7" in errors(record)[1]
    assert "host01" in errors(record)[0]
    assert group.processes() == [0, 0]


@pytest.mark.slow
def test_what_ignores_sigterm_is_stopped_all_the_same(serving: RayHosts) -> None:
    record = serving.up("serve.env={STAND_IN_FAULT: hang, RAY_STAND_IN_FAULT: ignores}")
    assert record.exit_code == 0, errors(record)
    folders = [scratch(serving, rank) for rank in (0, 1)]
    assert serving.up(playbook="down").exit_code == 0
    assert serving.processes() == [0, 0] and not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_a_port_of_the_cluster_that_is_in_use_is_named_before_anything_starts(
    group: RayHosts,
) -> None:
    holder = group.machines[0].enter([sys.executable, "-m", "http.server", "6379"])
    with subprocess.Popen(holder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        held = Call(operations.network.listener, port=6379)
        wait_for("the port to be held", lambda: group.machines[0].ask(held)[0]["holders"])
        record = group.up()
        program.kill()
    assert record.exit_code == 6, errors(record)
    assert "port 6379" in errors(record)[0] and "group.ray.port" in errors(record)[0]
