"""What a scheduled run would meet, over a real sshd with a real agent that cron has not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployctl.engine.schedule import check as schedule_check
from deployctl.engine.schedule import entries, scheduled_run, table
from deployctl.engine.schedule.entries import Entry
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.sshd import Sshd


@pytest.fixture
def agent(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An SSH agent of the person who schedules; it alone holds the key."""
    socket = tmp_path / "agent.socket"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        add = ["ssh-add", "-q", str(sshd.user_key)]
        # Its socket is there before it listens.
        wait_for("the agent", lambda: subprocess.run(add, check=False).returncode == 0)
        yield socket
    finally:
        process.terminate()
        process.wait()


def scheduled(tmp_path: Path, ssh: dict[str, Any], **profile: Any) -> Entry:
    content = {
        "extends": "demo",
        "name": "far",
        "hosts": [{"name": "far", "ssh": ssh, "root": str(tmp_path / "root")}],
        "serve": {"port": free_port()},
        **profile,
    }
    path = tmp_path / "far.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return Entry(
        name="far",
        at="0 4 * * *",
        profile=str(path),
        playbook="up",
        command=entries.command(),
        options=("--quiet",),
        environment=entries.stated_environment({"XDG_STATE_HOME": str(tmp_path / "state")}),
        directory="/",
        log=str(tmp_path / "far.log"),
    )


def test_a_key_of_its_own_is_fine(sshd: Sshd, tmp_path: Path) -> None:
    entry = scheduled(tmp_path, sshd.settings())
    assert schedule_check.plan(entry, entry.environment).verdict == "ok"


def test_a_key_behind_an_agent(sshd: Sshd, agent: Path, tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {sshd.known_hosts}\n", encoding="utf-8")
    ssh = sshd.settings(config_file=str(config))
    del ssh["identity_file"]
    nobody = tmp_path / "home"
    nobody.mkdir()
    entry = scheduled(tmp_path, ssh)
    entry = replace(entry, environment={**entry.environment, "HOME": str(nobody)})
    by_hand = schedule_check.plan(entry, {**entry.environment, "SSH_AUTH_SOCK": str(agent)})
    assert by_hand.verdict == "ok", "with the agent it works, which is why nobody notices"
    by_cron = schedule_check.plan(entry, entry.environment)
    assert by_cron.verdict == "failed"
    assert "let" in by_cron.say and "an SSH agent runs for you and not for cron" in by_cron.next


def test_an_unknown_host_key(sshd: Sshd, tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("", encoding="utf-8")
    entry = scheduled(tmp_path, sshd.settings(known_hosts=str(empty)))
    found = schedule_check.plan(entry, entry.environment)
    assert found.verdict == "failed" and "known" in found.say
    assert found.next


def test_without_any_environment_the_line_itself_runs(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    entry = scheduled(tmp_path, sshd.settings(known_hosts="/dev/null"))
    with entries.saving(entry):
        pass
    line = table.line(entry).removeprefix(entry.at).replace("\\%", "%")
    sh = shutil.which("sh") or "/bin/sh"
    answer = subprocess.run(
        [sh, "-c", line],
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert answer.returncode == 4, answer.stderr
    assert "scheduled run far: exit code 4" in answer.stdout
    assert "Traceback" not in answer.stdout + answer.stderr
    assert Path(entry.log).exists()
    assert scheduled_run.environment(entry).get("SSH_AUTH_SOCK") is None
    assert os.environ.get("XDG_CONFIG_HOME")
