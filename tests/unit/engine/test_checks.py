"""The checks of `doctor` that judge answers or this machine: each fault as data."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.profile import Profile
from deployctl.engine.inspect.checks import clock, connection, machine, network, registry
from deployctl.engine.inspect.checks.interface import Here, There
from deployctl.errors import HostError, NoPython, Unreachable
from deployctl.steps.facts import MODEL, SOURCE
from deployctl.steps.gpus.finding import Finding
from deployctl.steps.interface import Answers, Deployment, Unknown

PROFILE: dict[str, Any] = {
    "name": "toy",
    "hosts": [{"name": "gpu1", "ssh": {"address": "gpu1"}}],
    "model": {"path": "/models/target", "served_name": "toy"},
    "build": {"source": {"release": "0.32.0"}},
    "serve": {"port": 8123},
}
FOLDER = {
    "path": "/root",
    "writable": True,
    "read_only": False,
    "noexec": False,
    "free": 1 << 40,
    "inodes_free": 10**6,
}
HEALTHY = {
    "time": 1000.0,
    "user": "ada",
    "uid": 1000,
    "root": FOLDER,
    "tmp": {**FOLDER, "path": "/tmp"},
    "systemd": "not root",
    "linger": False,
    "kills_sessions": False,
    "open_files": 1 << 20,
}
JUDGES = (clock.judge, machine.folders, machine.services, machine.limits)


def profile(**more: Any) -> Profile:
    return Profile.model_validate({**PROFILE, **more})


def judged(answers: dict[str, Any], **more: Any) -> list[Finding]:
    made = profile(**more)
    there = There(Deployment(made, made.hosts[0]), Answers(answers), (1000.0, 1000.5))
    return [finding for judge in JUDGES for finding in judge(there)]


def root(**more: Any) -> dict[str, Any]:
    return {"root": {**FOLDER, **more}}


def tmp(**more: Any) -> dict[str, Any]:
    return {"tmp": {**FOLDER, "path": "/tmp", **more}}


MACHINES: dict[str, tuple[dict[str, Any], str, str, str, str]] = {
    "ahead": ({"time": 1020.0}, "clock", "warning", "20 s ahead", "set-ntp"),
    "behind": ({"time": 100.0}, "clock", "failed", "900 s behind", "set-ntp"),
    "read-only": (root(read_only=True, writable=False), "root", "failed", "read-only", "rw /root"),
    "full": (root(writable=False), "root", "failed", "cannot be written", "df -h /root"),
    "noexec": (root(noexec=True), "root", "failed", "noexec", "exec /root"),
    "no inodes": (root(inodes_free=10), "root", "failed", "10 inodes", "df -i /root"),
    "few inodes": (root(inodes_free=10**5), "root", "warning", "inodes", "gc"),
    "tmp full": (tmp(free=1 << 20), "tmp", "warning", "1 MiB are free", "du -xsh"),
    "tmp noexec": (tmp(noexec=True), "tmp", "warning", "Triton", "TMPDIR"),
    "tmp denied": (tmp(writable=False), "tmp", "failed", "cannot be written", "/tmp"),
    "linger": ({"kills_sessions": True}, "linger", "failed", "logout", "enable-linger ada"),
    "open files": ({"open_files": 1024}, "files", "warning", "1024 files", "nofile"),
}
"""What is wrong; then check, verdict, words and a line of the finding."""


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_with_one_fault(name: str) -> None:
    fault, check, verdict, words, line = MACHINES[name]
    (finding,) = (f for f in judged({machine.MACHINE: {**HEALTHY, **fault}}) if f.verdict != "ok")
    assert (finding.check, finding.verdict) == (check, verdict)
    assert words in finding.say
    assert line in "\n".join(finding.lines)


def test_nothing_is_wrong_with_a_healthy_one() -> None:
    assert {finding.verdict for finding in judged({machine.MACHINE: HEALTHY})} == {"ok"}
    assert [f.verdict for f in judged({machine.MACHINE: Unknown("lost", "it ended")})] == [
        "unknown"
    ]


def test_a_clock_is_judged_by_the_time_of_the_question() -> None:
    assert clock.difference(1003.0, (1000.0, 1004.0)) == 0
    assert clock.difference(1006.0, (1000.0, 1004.0)) == 2
    assert clock.difference(990.0, (1000.0, 1004.0)) == -10


# -- the way, and what the host asked others --


@pytest.mark.parametrize(
    ("error", "stage"),
    [
        (NoPython("h", "there is no python3 on the host"), "python"),
        (
            Unreachable("h", "container 129 on node is not running", "", "pct start 129"),
            "container",
        ),
        (Unreachable("h", "no connection to a through b"), "jump"),
        (Unreachable("h", "the ProxyCommand to a ended with 1"), "proxy command"),
        (Unreachable("h", "a and we have no algorithm in common"), "algorithms"),
        (HostError("h", "your ssh_config for a allows no login"), "configuration"),
        (HostError("h", "the agent's directory cannot be written"), "directory"),
        (HostError("h", "something else"), "connection"),
    ],
)
def test_stages(error: HostError, stage: str) -> None:
    finding = connection.judge(error)
    assert (finding.measured, finding.verdict) == (stage, "failed")
    assert error.next in finding.say


@pytest.mark.parametrize(
    ("words", "through", "stage"),
    [
        ("error: invalid peer certificate: UnknownIssuer", None, "certificate"),
        ("fatal: unable to access: server certificate verification failed", None, "certificate"),
        ("fatal: unable to access: Could not resolve host: git.test", None, "name"),
        ("Could not resolve host: git.test", "http://p:1", "proxy"),
        ("Received HTTP code 407 from proxy after CONNECT", "http://p:1", "proxy"),
        ("error: HTTP status server error (503 Service Unavailable)", None, "answer"),
        ("no answer within 20 s", None, "connect"),
    ],
)
def test_where_a_connection_ends(words: str, through: str | None, stage: str) -> None:
    from deployctl.agent.build import outside

    assert outside.stage(words, through) == stage


def test_a_proxy_that_is_excepted_is_none() -> None:
    from deployctl.agent.build.outside import proxy

    env = {"https_proxy": "http://u:p@proxy.test:1", "no_proxy": "own.test,.lan"}
    assert proxy("https://pypi.org", env) == "http://proxy.test:1"
    assert proxy("https://wheels.own.test/simple", env) is None
    assert proxy("http://pypi.org", env) is None


def test_what_is_built_needs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"url": "https://pypi.org/simple", "stage": "name", "why": "x", "proxy": None}
    made = profile()
    there = There(Deployment(made, made.hosts[0]), Answers({network.INDEX: answer}), (0, 0))
    for there_already, verdict in ((False, "failed"), (True, "warning")):
        monkeypatch.setattr(network, "built", lambda _, built=there_already: built)
        assert [finding.verdict for finding in network.index(there)] == [verdict]


@pytest.mark.parametrize("kind", network.SOURCES)
def test_a_source_that_is_not_there(kind: str) -> None:
    made = profile(build={"source": {"path": "/src"}})
    answers = Answers({SOURCE: Unknown(kind, "it is not there")})
    there = There(Deployment(made, made.hosts[0]), answers, (0, 0))
    (finding,) = network.repository(there)
    assert (finding.verdict, finding.measured) == ("failed", kind)


@pytest.mark.parametrize(
    ("kind", "message", "measured"),
    [
        ("denied", "a/b does not exist or is private, asked with no token", "denied"),
        ("missing", "a/b has no revision x", "missing"),
        ("unreachable", "https://hub.test: [Errno -2] Name or service not known", "name"),
        ("unreachable", "https://hub.test: Tunnel connection failed: 407 Proxy", "proxy"),
        ("unreachable", "https://hub.test: certificate verify failed", "certificate"),
        ("unreachable", "https://hub.test: HTTP 503", "answer"),
    ],
)
def test_a_hub_that_gives_nothing(kind: str, message: str, measured: str) -> None:
    made = profile(model={"repo": "a/b", "served_name": "toy"})
    refused = {"error": {"kind": kind, "message": message}, "exists": False}
    there = There(Deployment(made, made.hosts[0]), Answers({MODEL: refused}), (0, 0))
    (finding,) = network.models(there)
    assert (finding.verdict, finding.measured) == ("failed", measured)
    assert finding.say


def test_a_hub_behind_a_proxy_that_is_closed() -> None:
    made = profile(model={"repo": "a/b", "served_name": "toy"})
    refused = {
        "error": {"kind": "unreachable", "message": "https://hub.test: [Errno 111] refused"},
        "exists": False,
    }
    index = {"url": "x", "stage": "proxy", "why": "refused", "proxy": "http://proxy.test:1"}
    answers = Answers({MODEL: refused, network.INDEX: index})
    (finding,) = network.models(There(Deployment(made, made.hosts[0]), answers, (0, 0)))
    assert finding.measured == "proxy"
    assert "http://proxy.test:1" in finding.say


# -- this machine --


def here(environ: dict[str, str] | None = None, **more: Any) -> dict[str, list[Finding]]:
    given = Here(profile(**more), {"PATH": os.environ["PATH"], **(environ or {})})
    return {check.name: list(check.judge(given)) for check in registry.HERE}


def with_ssh(**more: Any) -> dict[str, Any]:
    return {"hosts": [{"name": "gpu1", "ssh": {"address": "gpu1", **more}}]}


def no_ssh(folder: Path) -> dict[str, list[Finding]]:
    return here({"PATH": str(folder)})


def open_key(folder: Path) -> dict[str, list[Finding]]:
    (folder / "key").touch(0o644)
    (folder / "key").chmod(0o644)
    return here(**with_ssh(identity_file=str(folder / "key")))


def no_key(folder: Path) -> dict[str, list[Finding]]:
    return here(**with_ssh(identity_file=str(folder / "none")))


def dead_agent(folder: Path) -> dict[str, list[Finding]]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "agent"))
    return here({"SSH_AUTH_SOCK": str(folder / "agent")})


def no_secret(folder: Path) -> dict[str, list[Finding]]:
    return here(serve={"port": 1, "api_key": {"env": "TOY_KEY"}})


def no_playbook(folder: Path) -> dict[str, list[Finding]]:
    (folder / "own.yaml").write_text("name: own\nsteps: [no-such-step]\n")
    return here(playbook=str(folder / "own.yaml"))


def no_state(folder: Path) -> dict[str, list[Finding]]:
    (folder / "state" / "deployctl").parent.mkdir()
    (folder / "state" / "deployctl").touch()
    return here()


def no_line(folder: Path) -> dict[str, list[Finding]]:
    (folder / "crontab").write_text("#!/bin/sh\nexit 0\n")
    (folder / "crontab").chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    made = folder / "config" / "deployctl" / "schedules"
    made.mkdir(parents=True)
    entry = {
        "name": "toy-up",
        "at": "0 3 * * *",
        "profile": "toy",
        "playbook": "up",
        "command": ["deployctl"],
        "options": [],
        "environment": {},
        "directory": str(folder),
        "log": str(folder / "log"),
        "secrets_file": "",
    }
    (made / "toy-up.json").write_text(json.dumps(entry))
    return here()


PLANTS: dict[str, tuple[Callable[[Path], dict[str, list[Finding]]], str, str, str, str]] = {
    "no ssh": (no_ssh, "ssh", "failed", "no ssh program", "openssh-client"),
    "open key": (open_key, "key", "failed", "readable by others (mode 644)", "chmod 600"),
    "no key": (no_key, "key", "failed", "No such file", ""),
    "dead agent": (dead_agent, "ssh-agent", "warning", "no SSH agent answers", "ssh-add"),
    "no secret": (no_secret, "secret", "failed", "TOY_KEY, which is not set", "export TOY_KEY="),
    "no playbook": (no_playbook, "playbook", "failed", "own.yaml:2", ""),
    "no state": (no_state, "reports", "warning", "cannot be written", "ls -ld"),
    "no line": (no_line, "cron", "failed", "not in the crontab; schedule it again", ""),
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    yield


@pytest.mark.parametrize("name", PLANTS)
def test_a_fault_of_this_machine(tmp_path: Path, name: str) -> None:
    plant, check, verdict, words, line = PLANTS[name]
    found = plant(tmp_path)
    wrong = {c: [f for f in fs if f.verdict == verdict] for c, fs in found.items()}
    assert [f for f in wrong[check] if words in f.say and line in "\n".join(f.lines)], found
    others = {c for c, fs in found.items() if c != check and any(f.verdict != "ok" for f in fs)}
    assert not others


def test_nothing_is_wrong_here() -> None:
    assert {f.verdict for findings in here().values() for f in findings} == {"ok"}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize(
    ("options", "key", "value"),
    [("ro", "read_only", True), ("noexec", "noexec", True), ("nr_inodes=100", "few", True)],
)
def test_the_agent_sees_how_a_folder_is_mounted(
    tmp_path: Path, options: str, key: str, value: bool
) -> None:
    code = (
        "import json, sys; from deployctl.agent.processes.machine import folder; "
        "print(json.dumps(folder(sys.argv[1])))"
    )
    mount = f'mount -t tmpfs -o {options} none "$1" && exec "$2" -c "$3" "$1"'
    argv = ["unshare", "-m", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, code]
    seen = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    seen["few"] = seen["inodes_free"] is not None and seen["inodes_free"] < 100
    assert seen[key] is value
    assert seen["writable"] is not seen["read_only"]
