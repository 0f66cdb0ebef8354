"""A real cron daemon runs what was scheduled, every minute: silent, until something is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.served.host import ServedHost
from tests.hosts.served.webhook import Webhook

pytestmark = [pytest.mark.lab, pytest.mark.long]

SETUP = """\
set -e
mount -t tmpfs tmpfs {mounts}
mkdir {mounts}/upper {mounts}/work
mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir={mounts}/upper,workdir={mounts}/work \
    /usr/sbin
printf '#!/bin/sh\\nexec cat >>{mail}\\n' >/usr/sbin/sendmail
chmod 755 /usr/sbin/sendmail
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/cron.d
mount --bind /dev/null /etc/crontab
mount -t tmpfs tmpfs /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
touch {mounts}/ready
exec /usr/sbin/cron -f
"""
"""cron among mounts of its own: no table of this machine is read, and its mail goes to a file."""
MINUTES = 300.0


class Cron:
    """A cron daemon in a mount namespace."""

    def __init__(self, directory: Path) -> None:
        self.mail = directory / "mail"
        mounts = directory / "mounts"
        mounts.mkdir()
        script = SETUP.format(mounts=mounts, mail=self.mail)
        self.process = subprocess.Popen(
            # With us it ends, however we end.
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("unshare", "--mount", "--propagation", "private", "sh", "-c", script),
            ],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(lambda: self.run("test", "-e", str(mounts / "ready")).returncode == 0, 60)

    def run(
        self, *argv: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run something among its mounts."""
        return subprocess.run(
            ["nsenter", "--target", str(self.process.pid), "--mount", *argv],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def until(condition: object, seconds: float) -> None:
    """Poll a condition; an AssertionError when its time is over."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.2)


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cron]:
    if shutil.which("cron", path="/usr/sbin") is None:
        pytest.fail("cron is not installed: apt install cron")
    daemon = Cron(tmp_path)
    yield daemon
    daemon.close()


def test_every_minute(served: ServedHost, cron: Cron, webhook: Webhook, tmp_path: Path) -> None:
    """One run that has something to do, one that has nothing, and beside them one that fails."""
    text = served.profile_file.read_text("utf-8")
    notify = "notify: [{webhook: {env: HOOK}, on: [change, failure]}]\n"
    served.profile_file.write_text(text + notify, encoding="utf-8")
    gone = "extends: demo\nhosts: [{name: gone, ssh: {address: 127.0.0.1, port: 1}}]\n"
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(f"name: wrong\n{gone}", encoding="utf-8")
    secrets = tmp_path / "secrets"
    secrets.write_text(f"HOOK={webhook.url}\n", encoding="utf-8")
    secrets.chmod(0o600)
    served.up()
    record = served.supervised()
    for pid in (record["supervisor"]["pid"], record["pid"]):
        os.kill(pid, signal.SIGKILL)
    env = {**served.environment(), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    deployctl = (sys.executable, "-m", "deployctl", "schedule")

    def add(profile: Path, *more: str) -> None:
        given = ("--profile", str(profile), "--at", "* * * * *", *more)
        added = cron.run(*deployctl, "add", *given, env=env)
        assert added.returncode == 0, added.stderr
        assert "UTC" in added.stdout

    add(wrong)
    add(served.profile_file, "--secrets-file", str(secrets))
    checked = cron.run(*deployctl, "check", "stand", env=env)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    log = served.state / "deployctl/schedules/stand.log"

    def ran(times: int) -> bool:
        return log.exists() and log.read_text("utf-8").count("== exit code 0") >= times

    until(lambda: ran(2), MINUTES)
    (told,) = webhook.bodies
    assert json.loads(told)["outcome"] == "deployed", "unchanged: nobody is told"
    assert served.unit()["kept"]
    # What is wrong is mailed, with the end of the log; what is well is not.
    until(lambda: cron.mail.exists() and "exit code 4" in cron.mail.read_text("utf-8"), MINUTES)
    assert "scheduled run stand" not in cron.mail.read_text("utf-8")
    for name in ("stand", "wrong"):
        assert cron.run(*deployctl, "remove", name, env=env).returncode == 0
    assert "deployctl" not in cron.run("crontab", "-l").stdout
