"""The same deployment over SSH, and into a container through its node: the same report."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from tests.hosts.lab import processes
from tests.hosts.lab.network import Lab
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.sshd import Sshd

from .conftest import LIMIT, PATH, UNCOMPILED, Demo, Ended

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
T = TypeVar("T")


class Elsewhere:
    """The demo's profile with another host, in a file of its own."""

    def __init__(self, place: Path, host: dict[str, Any], **changes: Any) -> None:
        self.state = place / "state"
        self.file = place / "elsewhere.yaml"
        profile = {
            "name": "elsewhere",
            "extends": "demo",
            "hosts": [host],
            "build": UNCOMPILED,
            **changes,
        }
        self.file.write_text(yaml.safe_dump(profile))

    def run(self, *argv: str) -> Ended:
        process = self.start(*argv)
        out, err = process.communicate(timeout=LIMIT)
        return Ended(process.returncode, out, err)

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """The command, running; it waits for an agent that is about to leave."""
        more = ["--profile", str(self.file), "--json", "--lock-wait", "2m"]
        return subprocess.Popen(
            [sys.executable, "-m", "deployctl", *argv, *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": PATH, "XDG_STATE_HOME": str(self.state)},
        )

    @contextmanager
    def up(self) -> Iterator[Ended]:
        """Deployed for a while, then stopped."""
        try:
            yield self.run("up")
        finally:
            down = self.run("down")
            assert down.code == 0, down.err


def shape(value: Any) -> Any:
    """A document without its values: what two reports of the same deployment share."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return "list"  # who else is on a machine differs from machine to machine
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "value"


def proven(ended: Ended, like: Ended) -> None:
    """It deployed, measured what the local deployment measured, and reports in the same shape."""
    assert ended.code == 0, f"{ended.out}\n{ended.err}"
    here, there = like.document["hosts"][0], ended.document["hosts"][0]
    assert [s["step"] for s in there["steps"]] == [s["step"] for s in here["steps"]]
    for name in ("smoke", "acceptance", "verify", "drafter", "clean"):
        assert shape(ended.step(name)["evidence"]) == shape(like.step(name)["evidence"]), name
    content = [e.step("smoke")["evidence"]["checks"][0]["result"]["content"] for e in (like, ended)]
    assert content[0] == content[1]
    length = ended.step("acceptance")["evidence"]["mean_acceptance_length"]
    assert 7.4 <= length <= 8.0


def test_over_ssh_though_the_session_is_killed_in_mid_build(
    deployed: Demo, sshd: Sshd, tmp_path: Path
) -> None:
    """The build goes on without us, the next `up` attaches to it, and there is only one."""
    assert deployed.first is not None
    root = tmp_path / "root"
    host = {**sshd.host_settings("loopback"), "root": str(root)}
    elsewhere = Elsewhere(tmp_path, host, serve={"port": free_port()})
    first = elsewhere.start("up")
    log = wait_for(lambda: next(root.glob("jobs/build-*/log"), None))
    wait_for(lambda: "uv venv" in log.read_text(errors="replace"))
    for pid in sshd.sessions():
        processes.send(pid, signal.SIGKILL)
    out, _ = first.communicate(timeout=LIMIT)
    lost = Ended(first.returncode, out, "")
    assert lost.code == 4
    assert "the connection to the agent ended" in lost.document["hosts"][0]["error"]["what"]
    with elsewhere.up() as ended:
        proven(ended, deployed.first)
        assert log.read_text(errors="replace").count("uv venv") == 1
        assert len(list(root.glob("jobs/build-*"))) == 1
        wait_for(lambda: is_free(root / "profiles" / "elsewhere" / "lock"))
        again = elsewhere.run("up")
        assert again.document["outcome"] == "unchanged"
        assert again.document["hosts"][0]["round_trips"] == 1


def is_free(lock: Path) -> bool:
    """Whether nobody holds it: an agent leaves when it hears that we have."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def wait_for(look: Callable[[], T | None]) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


@pytest.mark.lab
def test_into_a_container_through_its_node(deployed: Demo, lab: Lab, tmp_path: Path) -> None:
    assert deployed.first is not None
    # No network leads out of the lab, so the proven environment is lent. The root is one that this
    # machine, whose files the container sees, does not have.
    root = f"/srv/{tmp_path.name}"
    lab.container.run("mkdir", "-m", "700", "-p", root)
    lab.container.run("ln", "-s", str(deployed.root / "environments"), f"{root}/environments")
    host = {**lab.container.host_settings(via="pct"), "root": root}
    elsewhere = Elsewhere(tmp_path, json.loads(json.dumps(host)), serve={"port": 8123})
    with elsewhere.up() as ended:
        proven(ended, deployed.first)
