"""A real vLLM, deployed once by `deployctl up --profile demo`, shared by every test here.

`deployed` is that deployment: its report, its root directory and port, and the command line that
made it. `served` is where its server answers, `vllm_environment` the Python environment that it
runs in. A test that changes what serves must bring the demo back (`deployed.up()`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.hosts.lab.ports import free_port

UNCOMPILED = {"compile_bytecode": False}
"""For `build`. Most of what vLLM brings is never imported, and compiling all of it keeps two cores
busy for two minutes; the demo on a minimal Debian is built as it is."""
LIMIT = 900
"""Seconds; a command that takes longer hangs."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""A login's: the environment's Python is one that the lab's machines have too."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on stdout: exactly one."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    def step(self, name: str) -> dict[str, Any]:
        """A step's record on the first host."""
        steps: list[dict[str, Any]] = self.document["hosts"][0]["steps"]
        return next(step for step in steps if step["step"] == name)


@dataclass
class Demo:
    """The profile `demo`, deployed in a root directory and on a port of its own."""

    root: Path
    port: int
    state: Path
    sets: list[str] = field(default_factory=list)
    first: Ended | None = None

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> Ended:
        """`deployctl ARGV --profile demo` with this deployment's root and port."""
        sets = [f"hosts.0.root={self.root}", f"serve.port={self.port}"]
        command = [sys.executable, "-m", "deployctl", *argv, "--profile", "demo"]
        for item in [*sets, "build.compile_bytecode=false", *self.sets]:
            command += ["--set", item]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": PATH, "XDG_STATE_HOME": str(self.state), **(env or {})},
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def up(self, *argv: str) -> Ended:
        """`deployctl up --json`."""
        return self.run("up", "--json", *argv)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> Path:
        """The environment of the release that the first `up` deployed."""
        assert self.first is not None
        key: str = self.first.step("build")["evidence"]["key"]
        return self.root / "environments" / key


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, deployed from nothing; stopped at the end."""
    # The longest chain of the suite: the tests beside it have the time that it leaves.
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -5)
    # Machines of the lab have a /tmp of their own; what lies in /var/tmp they see too.
    with TemporaryDirectory(prefix="deployctl-demo-", dir="/var/tmp") as root:
        demo = Demo(Path(root) / "root", free_port(), tmp_path_factory.mktemp("demo") / "state")
        demo.first = demo.up()
        assert demo.first.code == 0, f"{demo.first.out}\n{demo.first.err}"
        yield demo
        down = demo.run("down", "--json")
        assert down.code == 0, f"{down.out}\n{down.err}"


@pytest.fixture(scope="session")
def vllm_environment(deployed: Demo) -> Path:
    """The Python environment with a real vLLM (CPU build)."""
    return deployed.environment


@dataclass(frozen=True)
class Served:
    """Where a real server answers: its URL, the model's name, and the host's root directory."""

    url: str
    model: str
    root: Path


@pytest.fixture
def served(deployed: Demo) -> Served:
    """The demo's server, right drafter config, 7 draft tokens."""
    return Served(deployed.url, "tiny", deployed.root)
