"""Replicas on hosts of one private network, behind a real vllm-router on the first of them."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from uv import find_uv_bin

from deployctl.config.router import ROUTER_VERSION
from deployctl.hosts.session import Call
from tests.hosts.served.host import REPOSITORY
from tests.hosts.served.many import ManyHosts

ROUTER_PORT = 9000
PROGRAM = f"vllm-router-{ROUTER_VERSION}"


def router_environment() -> Path:
    """The router, installed once for all tests on this machine."""
    folder = Path(tempfile.gettempdir()) / f"deployctl-test-{os.getuid()}-{PROGRAM}"
    with Path(f"{folder}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "deployctl.json").exists():
            uv, python = find_uv_bin(), str(folder / "bin" / "python")
            subprocess.run(
                [uv, "venv", "-q", "--clear", "--python", sys.executable, folder], check=True
            )
            wanted = f"vllm-router=={ROUTER_VERSION}"
            subprocess.run([uv, "pip", "install", "-q", "--python", python, wanted], check=True)
            (folder / "deployctl.json").write_text("{}\n", encoding="utf-8")
    return folder


class Replicas(ManyHosts):
    """A profile of so many hosts with a router; they reach each other as 10.77.0.1, .2 and so
    on."""

    def __init__(self, directory: Path, count: int, **profile: Any) -> None:
        super().__init__(directory, count)
        first = self.machines[0]
        first.inside("ip", "link", "add", "lan", "type", "bridge")
        first.inside("ip", "addr", "add", f"{address(0)}/24", "dev", "lan")
        first.inside("ip", "link", "set", "lan", "up")
        for number, machine in enumerate(self.machines[1:], 1):
            peer = ["peer", "name", "lan", "netns", str(machine.pid)]
            first.inside("ip", "link", "add", f"to{number}", "type", "veth", *peer)
            first.inside("ip", "link", "set", f"to{number}", "master", "lan", "up")
            machine.inside("ip", "addr", "add", f"{address(number)}/24", "dev", "lan")
            machine.inside("ip", "link", "set", "lan", "up")
        routers = first.root / "routers"
        routers.mkdir(mode=0o700)
        (routers / PROGRAM).symlink_to(router_environment())
        content = yaml.safe_load(self.profile_file.read_text("utf-8"))
        content["hosts"] = [
            {**machine.host_settings(), "address": address(number)}
            for number, machine in enumerate(self.machines)
        ]
        content["serve"] |= {"host": "0.0.0.0"}
        content["router"] = {"port": ROUTER_PORT, "policy": "round_robin"}
        content |= profile
        self.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def workers(self) -> dict[str, bool]:
        """Whether the router finds each replica in its list healthy, by address."""
        return {place.split(":")[0]: healthy for place, healthy in self.listed().items()}

    def listed(self) -> dict[str, bool]:
        """The same by address and port."""
        url = f"http://127.0.0.1:{ROUTER_PORT}/workers"
        (answer,) = self.machines[0].ask(Call("network.http", method="GET", url=url))
        found = json.loads(answer["body"])["workers"]
        return {one["url"].split("/")[2]: one["is_healthy"] for one in found}

    def all(self) -> dict[str, bool]:
        """The router's list as it is with every replica in service."""
        return {address(n) if n else "127.0.0.1": True for n in range(len(self.machines))}

    def router(self) -> dict[str, Any]:
        """The router's unit."""
        (unit,) = self.machines[0].ask(Call("units.state", profile="stand", unit="router"))
        found: dict[str, Any] = unit
        return found

    @contextmanager
    def asking(self, rate: float = 20, seconds: float = 0.5) -> Iterator[dict[str, Any]]:
        """A client that asks the router all the while, beside it; what became of its requests."""
        found: dict[str, Any] = {}
        argv = [str(ROUTER_PORT), str(rate), "tiny", str(seconds)]
        client = subprocess.Popen(
            self.machines[0].enter([sys.executable, "-m", "tests.hosts.served.steady", *argv]),
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with client:
            assert client.stdout is not None
            assert client.stdout.readline() == "asking\n"
            yield found
            output, _ = client.communicate()
        found.update(json.loads(output))


def address(number: int) -> str:
    """Where the others reach a host."""
    return f"10.77.0.{number + 1}"
