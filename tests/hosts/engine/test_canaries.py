"""Canary secrets through a whole life: a run, hooks, a failure, questions, the end. A server that
prints them leaves them nowhere, on either side."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.hosts.served.host import LIMIT, ServedHost

CANARY = "canary-9c41"
SECRETS = {
    "MY_TOKEN": f"hf_{CANARY}-token",
    "MY_KEY": f"key-{CANARY}",
    "MY_HOOK": f"http://127.0.0.1:1/{CANARY}?a=b",
}
TELLS = "serve.env.STAND_IN_TELLS=HF_TOKEN VLLM_API_KEY"


@pytest.fixture
def secretive(served: ServedHost, monkeypatch: pytest.MonkeyPatch) -> ServedHost:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
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


def in_files(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and CANARY.encode() in path.read_bytes():
                yield path


def in_processes(server: int | None) -> Iterator[str]:
    """Command lines of all processes, and environments of those that deployctl started; the
    server itself is given its secrets."""
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                data = (folder / name).read_bytes()
            except OSError:
                continue
            ours = name == "cmdline" or b"supervisor.pyz" in (folder / "cmdline").read_bytes()
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

    code, said = deployctl(served, "up", "--set", TELLS, "--set", "serve.env.STAND_IN_FAULT=start")
    told.append(said)
    assert code == 10, said
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
    assert list(in_files(served.root, served.state)) == []
    assert list(in_processes(None)) == []
    assert not kept.exists()
    for path in served.state.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path.name == "deployctl", path
