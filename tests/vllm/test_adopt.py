"""A real vLLM that was started by hand: adopted, taken over, and put back with its own argv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from deployctl.agent.processes.processes import read_stat
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.processes import descendants, is_alive

from .conftest import LIMIT, PATH, Demo

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


class ByHand:
    """A server started from a shell, with the environment and model that the demo has."""

    def __init__(self, demo: Demo, folder: Path) -> None:
        self.demo, self.folder, self.port = demo, folder, free_port()
        (model,) = (demo.root / "models").glob("tiny-target-*")
        hosts = folder / "profiles" / "hosts"
        hosts.mkdir(parents=True)
        (hosts / "here.yaml").write_text(f"local: true\nroot: {demo.root}\n", "utf-8")
        self.argv = [str(demo.environment / "bin" / "vllm"), "serve", str(model)]
        self.argv += ["--served-model-name", "tiny", "--host", "127.0.0.1"]
        self.argv += ["--port", str(self.port), "--max-model-len", "1024", "--enforce-eager"]
        self.argv += ["--max-num-seqs", "8", "--seed", "7"]
        variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "PATH": PATH}
        with (folder / "nohup.out").open("wb") as log:
            self.process = subprocess.Popen(
                self.argv,
                env={**os.environ, **variables, "VLLM_NO_USAGE_STATS": "1"},
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        wait_for("the server to answer", self.answers, 300)

    def answers(self) -> bool:
        assert self.process.returncode is not None or self.process.poll() is None
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        state = {"PATH": PATH, "XDG_STATE_HOME": str(self.folder / "state")}
        return subprocess.run(
            [sys.executable, "-m", "deployctl", *argv],
            cwd=self.folder,
            env={**os.environ, **state, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture
def by_hand(deployed: Demo, tmp_path: Path) -> Iterator[ByHand]:
    server = ByHand(deployed, tmp_path)
    yield server
    server.run("down", "--profile", "mine")
    server.process.kill()
    server.process.wait()


def test_a_failed_first_release_puts_it_back(by_hand: ByHand) -> None:
    first = [by_hand.process.pid, *descendants(by_hand.process.pid)]
    assert len(first) > 1, "an engine of its own"
    adopted = by_hand.run("adopt", "here", "--port", str(by_hand.port), "--name", "mine", "--json")
    assert adopted.returncode == 0, adopted.stderr
    release = json.loads(adopted.stdout)["release"]
    sets = ["--set", "build.compile_bytecode=false"]
    plan = by_hand.run("plan", "--profile", "mine", *sets)
    assert f"{release} -> stopped" in plan.stdout, plan.stdout + plan.stderr
    assert [line for line in plan.stdout.splitlines() if "build" in line and "unchanged" in line], (
        "the same vLLM is there already"
    )
    sets += ["--set", "smoke.requests.0.check={contains: [no such words]}"]
    failed = by_hand.run("up", "--profile", "mine", "--json", *sets)
    document = json.loads(failed.stdout)
    assert (failed.returncode, document["outcome"]) == (10, "rolled-back"), failed.stderr
    assert by_hand.process.wait(10) is not None
    assert not [pid for pid in first if is_alive(pid)], "nothing is left of the first one"
    unit = by_hand.run("status", "--profile", "mine", "--json")
    (host,) = json.loads(unit.stdout)["hosts"]
    assert release in json.dumps(host)
    record = by_hand.demo.root / "profiles" / "mine" / "units" / "server" / "server" / "record.json"
    pid = json.loads(record.read_text("utf-8"))["pid"]
    assert read_stat(pid) is not None
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    assert command[-len(by_hand.argv) :] == by_hand.argv
    assert by_hand.answers()
