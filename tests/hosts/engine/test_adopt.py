"""A server that somebody started by hand, adopted: found, described, taken over, put back.

The server is the stand-in for vLLM; tests/vllm/test_adopt.py does the same with a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.processes.processes import is_same, read_stat
from deployctl.agent.supervision import adoption
from tests.hosts.lab.files import contents
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.sshd import Sshd
from tests.hosts.served.host import REPOSITORY, ServedHost

MODELS = REPOSITORY / "models"
DRAFTS = json.dumps(
    {"method": "dflash", "model": str(MODELS / "tiny-dflash-stale"), "num_speculative_tokens": 7}
)
KEY = "sk-canary-of-argv"
TOKEN = "hf_canary_of_env"


class ByHand:
    """A host with a server that was started from a shell, and a folder with its host file."""

    def __init__(self, served: ServedHost, folder: Path) -> None:
        self.served, self.folder = served, folder
        (self.environment,) = (served.root / "environments").iterdir()
        self.environment = self.environment.rename(folder / "venv")
        info = next(self.environment.glob("lib/python3*/site-packages")) / (
            "torch-2.13.0+cpu.dist-info"
        )
        info.mkdir()
        hosts = folder / "profiles" / "hosts"
        hosts.mkdir(parents=True)
        (hosts / "here.yaml").write_text(f"local: true\nroot: {served.root}\n", "utf-8")
        self.port = free_port()
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *more: str, port: int | None = None, **env: str) -> subprocess.Popen[bytes]:
        """The server, as a person starts it."""
        argv = [str(self.environment / "bin" / "vllm"), "serve", str(MODELS / "tiny-target")]
        argv += ["--served-model-name", "tiny", "--host", "127.0.0.1"]
        argv += ["--port", str(port or self.port), "--max-model-len", "1024", *more]
        with (self.folder / "nohup.out").open("ab") as log:
            process = subprocess.Popen(
                argv,
                env={**os.environ, "VLLM_NO_USAGE_STATS": "1", **env},
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        self.answers(port)
        return process

    def answers(self, port: int | None = None) -> None:
        wait_for("the server to answer", lambda: self._health(port or self.port), 60)

    def _health(self, port: int) -> bool:
        url = f"http://127.0.0.1:{port}/health"
        found = self.served.ask("network.http", method="GET", url=url)
        return bool(found["status"] == 200)

    def deployctl(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deployctl", *argv],
            cwd=self.folder,
            env={**self.served.environment(), **env},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def adopt(self, *argv: str) -> dict[str, Any]:
        # Other servers that run here are those of other tests.
        which = () if "--port" in argv else ("--port", str(self.port))
        done = self.deployctl("adopt", "here", "--json", *which, *argv)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def built(self, profile: str) -> None:
        """What `up` would build for the profile, so that nothing is downloaded."""
        self.served.profile_file = self.folder / profile
        self.served.make_environment()

    def unit(self, profile: str) -> dict[str, Any]:
        found: dict[str, Any] = self.served.ask("units.state", profile=profile, unit="server")
        return found

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
        for profile in self.served.ask("releases.profiles"):
            self.served.ask("units.stop", profile=profile, unit="server", grace=0.5)


@pytest.fixture
def by_hand(served: ServedHost, tmp_path: Path) -> Iterator[ByHand]:
    host = ByHand(served, tmp_path)
    yield host
    host.close()


def text_below(folder: Path) -> str:
    """Everything that a folder's files hold."""
    found = (data for path, data in contents(folder) if path.suffix != ".pyz")
    return "\n".join(data.decode("utf-8", "replace") for data in found)


def test_the_profile_starts_the_same_server(by_hand: ByHand) -> None:
    by_hand.start("--speculative-config", DRAFTS, "--api-key", KEY, HF_TOKEN=TOKEN)
    found = by_hand.adopt("--name", "made")
    assert found["files"] == ["profiles/made.yaml"]
    assert found["release"].startswith("adopted-")
    text = (by_hand.folder / "profiles" / "made.yaml").read_text("utf-8")
    assert "HF_TOKEN: {env: HF_TOKEN}" in text
    assert "api_key: {env: VLLM_API_KEY}" in text
    everything = text + json.dumps(found) + text_below(by_hand.served.root)
    assert KEY not in everything
    assert TOKEN not in everything
    profile = by_hand.deployctl("profile", "show", "made", "--json")
    shown = json.loads(profile.stdout)
    assert shown, profile.stderr
    for line in ("release: 0.32.0", "target: cpu", f"port: {by_hand.port}", "VLLM_NO_USAGE_STATS"):
        assert line in text
    unit = by_hand.unit("made")
    assert (unit["state"], unit["release"]) == ("running", found["release"])
    assert not unit["supervised"]


def test_taken_over_and_put_back(by_hand: ByHand) -> None:
    server = by_hand.start()
    before = read_stat(server.pid)
    assert before is not None
    adopted = by_hand.adopt("--name", "made")["release"]
    by_hand.built("profiles/made.yaml")
    plan = by_hand.deployctl("plan", "-p", "profiles/made.yaml")
    assert f"{adopted} -> stopped" in plan.stdout, plan.stdout + plan.stderr
    assert is_same(server.pid, before.start), "plan touches nothing"
    refused = ("smoke.requests.0.check={contains: [no such words]}",)
    failed = by_hand.deployctl("up", "-p", "profiles/made.yaml", "--json", "--set", *refused)
    document = json.loads(failed.stdout)
    assert (failed.returncode, document["outcome"]) == (10, "rolled-back"), failed.stderr
    server.wait(10)
    by_hand.answers()
    unit = by_hand.unit("made")
    assert unit["release"] == adopted
    argv = [
        part.decode() for part in Path(f"/proc/{unit['pid']}/cmdline").read_bytes().split(b"\0")
    ]
    assert argv[1:5] == [
        str(by_hand.environment / "bin" / "vllm"),
        "serve",
        str(MODELS / "tiny-target"),
        "--served-model-name",
    ]
    assert Path(f"/proc/{unit['pid']}/cwd").resolve() == by_hand.folder


@pytest.mark.slow
def test_a_release_in_its_place_and_back_again(by_hand: ByHand) -> None:
    by_hand.start()
    adopted = by_hand.adopt("--name", "made")["release"]
    by_hand.built("profiles/made.yaml")
    deployed = by_hand.deployctl("up", "-p", "profiles/made.yaml", "--json")
    assert deployed.returncode == 0, deployed.stderr
    back = by_hand.deployctl("rollback", "-p", "profiles/made.yaml", "--json")
    assert back.returncode == 0, back.stdout + back.stderr
    assert by_hand.unit("made")["release"] == adopted
    assert (by_hand.environment / "bin" / "vllm").exists()


def test_on_a_host_that_ssh_reaches(by_hand: ByHand, sshd: Sshd) -> None:
    server = by_hand.start()
    host = {**sshd.host_settings("there"), "root": str(by_hand.served.root)}
    (by_hand.folder / "profiles" / "hosts" / "there.yaml").write_text(json.dumps(host), "utf-8")
    done = by_hand.deployctl("adopt", "there", "--port", str(by_hand.port), "--name", "far")
    assert done.returncode == 0, done.stderr
    assert "hosts: [there]" in (by_hand.folder / "profiles" / "far.yaml").read_text("utf-8")
    status = by_hand.deployctl("status", "-p", "far", "--json")
    assert f'"pid": {server.pid}' in status.stdout


def test_without_its_secrets_it_is_not_stopped(by_hand: ByHand) -> None:
    server = by_hand.start("--api-key", KEY)
    by_hand.adopt("--name", "made")
    by_hand.built("profiles/made.yaml")
    refused = by_hand.deployctl("up", "-p", "made", "--skip", "rehearse")
    assert refused.returncode == 7
    assert "set VLLM_API_KEY" in refused.stdout + refused.stderr
    assert server.poll() is None, "it goes on serving"


def test_several_servers_are_listed(by_hand: ByHand) -> None:
    by_hand.start()
    other = free_port()
    by_hand.start(port=other)
    asked = by_hand.deployctl("adopt", "here")
    assert asked.returncode == 2
    for part in ("--port PORT", f"port {by_hand.port}", f"port {other}"):
        assert part in asked.stderr
    assert by_hand.adopt("--port", str(other), "--name", "other")["server"]


def test_one_that_is_gone_is_recorded_again(by_hand: ByHand) -> None:
    server = by_hand.start()
    first = by_hand.adopt("--name", "made")["release"]
    server.kill()
    server.wait()
    assert by_hand.unit("made")["state"] == "lost"
    by_hand.start()
    again = by_hand.adopt("--profile", "profiles/made.yaml")
    assert again["files"] == []
    assert again["release"] != first
    assert by_hand.unit("made")["state"] == "running"


def test_nothing_to_adopt(by_hand: ByHand) -> None:
    port = str(free_port())
    done = by_hand.deployctl("adopt", "here", "--port", port, "--name", "none")
    assert done.returncode == 2
    assert not list((by_hand.folder / "profiles").glob("*.yaml"))


def test_started_again_as_its_own_user(by_hand: ByHand) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    run_as = {"uid": 65534, "gid": 65533, "groups": [65532], "umask": 0o027}
    argv = ["/bin/sleep", "1000"]
    unit = by_hand.served.ask(
        "units.start",
        profile="made",
        unit="server",
        argv=argv,
        release="adopted-of-nobody",
        cwd="/",
        supervisor="agent",
        run_as=run_as,
    )
    by_hand.served.ask("releases.record", profile="made", entry={"kind": "note"})
    assert adoption.run_as(f"/proc/{unit['pid']}") == run_as
