"""Canary secrets through a whole life: a run, hooks, a scheduled run that fails, questions, the
end. A server that prints them leaves them nowhere, on either side."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deployctl.engine.schedule import entries, scheduled_run
from deployctl.engine.schedule.entries import Entry
from tests.hosts.lab.files import contents
from tests.hosts.served.host import LIMIT, ServedHost

CANARY = "canary-9c41"
SECRETS = {
    "MY_TOKEN": f"hf_{CANARY}-token",
    "MY_KEY": f"key-{CANARY}",
    "MY_HOOK": f"http://127.0.0.1:1/{CANARY}?a=b",
}
TELLS = "serve.env.STAND_IN_TELLS=HF_TOKEN VLLM_API_KEY"


@pytest.fixture
def secretive(served: ServedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedHost:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    profile = yaml.safe_load(served.profile_file.read_text("utf-8"))
    profile["serve"] |= {
        "secrets": {"HF_TOKEN": {"env": "MY_TOKEN"}},
        "api_key": {"env": "MY_KEY"},
    }
    profile["notify"] = [{"webhook": {"env": "MY_HOOK"}, "on": ["always"]}]
    served.profile_file.write_text(yaml.safe_dump(profile), encoding="utf-8")
    return served


def deployctl(served: ServedHost, *argv: str) -> tuple[int, str]:
    done = subprocess.run(
        served.command(*argv),
        env=served.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    return done.returncode, done.stdout + done.stderr


def scheduled(served: ServedHost, playbook: str, tmp_path: Path) -> tuple[int, str]:
    """A scheduled run whose server does not start, with its secrets from a file: its exit code,
    and what cron would mail."""
    secrets = tmp_path / "secrets"
    secrets.touch(0o600)
    secrets.write_text("".join(f"{name}={value}\n" for name, value in SECRETS.items()))
    environment = {n: v for n, v in served.environment().items() if n not in SECRETS}
    entry = Entry(
        name="canaries",
        at="0 4 * * *",
        profile=str(served.profile_file),
        playbook=playbook,
        command=(sys.executable, "-m", "deployctl"),
        options=("--set", TELLS, "--set", "serve.env.STAND_IN_FAULT=start"),
        environment=environment,
        directory="/",
        log=str(tmp_path / "logs/canaries.log"),
        secrets_file=str(secrets),
    )
    with entries.saving(entry):
        pass
    return scheduled_run.carry_out(entry)


def in_files(*folders: Path) -> Iterator[Path]:
    return (path for path, data in contents(*folders) if CANARY.encode() in data)


def in_processes(server: int | None) -> Iterator[str]:
    """Command lines of all processes, and environments of those that deployctl started; the
    server itself is given its secrets."""
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                data = (folder / name).read_bytes()
                ours = name == "cmdline" or b"supervisor.pyz" in (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if CANARY.encode() in data and ours and folder.name != str(server):
                yield f"{folder}/{name}"


def test_they_are_found_nowhere(secretive: ServedHost, tmp_path: Path) -> None:
    served = secretive
    hooks = [
        {"run": ["sh", "-c", "env; env >&2"]},
        {"run": ["sh", "-c", "env; cat"], "where": "host"},
    ]
    playbook = tmp_path / "hooked.yaml"
    steps = [{"step": name} for name in ("fetch", "drafter", "clean", "launch", "ready", "smoke")]
    playbook.write_text(yaml.safe_dump({"name": "hooked", "steps": steps, "after": hooks}))
    profile = yaml.safe_load(served.profile_file.read_text("utf-8"))
    profile["playbook"] = str(playbook)
    served.profile_file.write_text(yaml.safe_dump(profile), encoding="utf-8")
    told = []

    code, said = deployctl(served, "up", "--set", TELLS)
    told.append(said)
    assert code == 0, said
    # The run has ended well; what its server printed lies there, without the values.
    server = served.unit()["pid"]
    log = (served.root / "profiles/stand/units/server/server/server.log").read_text("utf-8")
    assert "HF_TOKEN=" in log
    assert list(in_processes(server)) == []
    kept = served.root / "profiles/stand/units/server/server/secrets.json"
    assert list(in_files(served.root, served.state)) == [kept]
    assert kept.stat().st_mode & 0o777 == 0o600

    code, said = scheduled(served, str(playbook), tmp_path)
    told.append(said)
    assert code == 10, said
    assert list(in_files(entries.folder())) == []
    for question in (
        ("status",),
        ("status", "--json"),
        ("logs",),
        ("history", "--json"),
        ("plan",),
    ):
        told.append(deployctl(served, *question)[1])
    code, said = deployctl(served, "down", "--json")
    told.append(said)
    assert code == 0, said
    assert [text for text in told if CANARY in text] == []
    assert list(in_files(served.root, served.state, tmp_path / "logs")) == []
    assert list(in_processes(None)) == []
    assert not kept.exists()
    for name, mode in (("logs/canaries.log", 0o600), ("logs", 0o700)):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
    for path in served.state.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path.name == "deployctl", path
