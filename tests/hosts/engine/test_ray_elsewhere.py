"""A server in a Ray cluster that is there already, a stand-in: used, and left as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.served.grouped import RAY, install_ray
from tests.hosts.served.host import ServedHost

VARIABLE = "TOKEN_OF_THEIR_CLUSTER"


class Theirs:
    """The cluster of somebody else."""

    def __init__(self, directory: Path, gpus: int) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        token, log = directory / "token", directory / "ray.log"
        token.touch(0o600)
        token.write_text("theirs", encoding="ascii")
        env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        argv = [sys.executable, str(RAY), "start", "--head", "--block", f"--num-gpus={gpus}"]
        at = ["--node-ip-address=127.0.0.1", f"--port={self.address.rpartition(':')[2]}"]
        with log.open("wb") as output:
            self.process = subprocess.Popen([*argv, *at], env=env, stdout=output)
        wait_for("their cluster", lambda: "started" in log.read_text("utf-8"))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedHost]:
    """A host that is a node of it, with two GPUs."""
    monkeypatch.setenv(VARIABLE, "theirs")
    theirs = Theirs(tmp_path, 2)
    served = ServedHost(tmp_path)
    content = yaml.safe_load(served.profile_file.read_text("utf-8"))
    ray = {"address": theirs.address, "token": {"env": VARIABLE}}
    group = {"engine": "ray", "tensor_parallel_size": 2, "rendezvous": "2s", "ray": ray}
    served.profile_file.write_text(yaml.safe_dump({**content, "group": group}), encoding="utf-8")
    install_ray(served.root / "environments" / served.make_environment())
    try:
        yield served
        assert theirs.process.poll() is None, "it is left as it is"
    finally:
        theirs.process.kill()
        theirs.process.wait()
        served.close()


def test_up_and_down(host: ServedHost) -> None:
    first = host.up()
    assert first.exit_code == 0, [one.error for one in first.hosts]
    argv = host.unit()["argv"]
    assert argv[argv.index("--distributed-executor-backend") + 1] == "ray"
    assert host.up(playbook="down").exit_code == 0
    assert host.unit()["members"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "token", "says"),
    [
        ("tensor_parallel_size=3", "theirs", "the cluster has 2 free GPUs, and 3 are needed"),
        ("ray.address=127.0.0.1:1", "theirs", "the cluster at 127.0.0.1:1 does not answer"),
        ("rendezvous=2s", "another", "the token of the Ray cluster is missing or another one"),
    ],
)
def test_why_it_cannot_be_used(
    host: ServedHost, monkeypatch: pytest.MonkeyPatch, change: str, token: str, says: str
) -> None:
    monkeypatch.setenv(VARIABLE, token)
    record = host.up(f"group.{change}")
    assert record.exit_code == 7, [one.error for one in record.hosts]
    assert says in str(record.hosts[0].error)
    assert host.unit()["members"] == []


def test_without_the_variable_nothing_is_begun(
    host: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    record = host.up()
    assert f"set {VARIABLE} in deployctl's environment" in str(record.hosts[0].error)
    assert host.unit()["state"] == "absent"
