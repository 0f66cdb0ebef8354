"""Times and tables against the real crontab(1), among mounts of its own."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deployctl.engine.schedule import times

pytestmark = pytest.mark.lab

SPOOL = """\
set -e
mount -t tmpfs tmpfs /var/spool/cron
mkdir -m 1730 /var/spool/cron/crontabs
"""
EACH = 'while IFS= read -r row; do printf "%s\\n" "$row" | crontab - >/dev/null 2>&1; echo $?; done'
NICKNAMES = [f"{name} x" for name in times.NICKNAMES]


def among_mounts(script: str, input: str = "", **variables: str) -> str:
    """What a script prints that sees an empty spool of crontabs."""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", SPOOL + script],
        input=input,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def drawn(field: times.Field, rng: random.Random) -> str:
    low, high = sorted(rng.sample(range(field.first, field.last + 1), 2))
    forms = ["*", f"*/{high - low}", str(low), f"{low}-{high}", f"{low}-{high}/2", f"{low},{high}"]
    return rng.choice([*forms, *field.names])


def test_what_is_taken_is_taken_by_cron() -> None:
    rng = random.Random(5)
    rows = [" ".join(drawn(field, rng) for field in times.FIELDS) for _ in range(150)]
    rows = [f"{times.parse(row).text} x" for row in rows if " 31 2 " not in row] + NICKNAMES
    told = among_mounts(EACH, "\n".join(rows) + "\n").split()
    assert dict(zip(rows, told, strict=True)) == dict.fromkeys(rows, "0")


INVOKE = """\
import json, subprocess, sys
from typer.testing import CliRunner
from deployctl.cli.app import app
told = []
for argv in json.load(sys.stdin):
    done = CliRunner().invoke(app, ["schedule", *argv])
    listed = subprocess.run(["crontab", "-l"], capture_output=True, text=True)
    told.append([done.exit_code, done.stdout, listed.stdout])
print(json.dumps(told))
"""
MINE = "CRON_TZ=Japan\n5 5 * * * true\n"


def test_from_the_command_line(tmp_path: Path) -> None:
    commands = [
        ["add", "-p", "demo", "--at", "0 4 * * *\n* * * * *"],
        ["add", "-p", "demo", "--at", "@daily", "--dry-run", "--json"],
        ["add", "-p", "demo", "--at", "0 4 * * mon-fri"],
        ["remove", "demo"],
    ]
    script = f"printf '{MINE}' | crontab -\n{shlex.join([sys.executable, '-c', INVOKE])}"
    folders = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    told = json.loads(among_mounts(script, json.dumps(commands), **folders))
    refused, dry, added, removed = told
    assert refused[0] != 0 and refused[2] == MINE
    document = json.loads(dry[1])
    assert dry[0] == 0 and dry[2] == MINE
    assert document["written"] is False and document["change"] == "add"
    assert document["fields"] == "0 0 * * *" and len(document["next"]) == 3
    assert added[0] == 0 and "\n0 4 * * 1-5 " in added[2] and added[2].startswith(MINE)
    assert removed[0] == 0 and removed[2] == MINE
    assert not list((tmp_path / "deployctl/schedules").glob("*.json"))
