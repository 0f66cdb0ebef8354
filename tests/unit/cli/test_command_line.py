"""The command line as a user meets it: light, one document, and the documented exit codes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"asyncio", "fabric", "http", "httpx", "huggingface_hub", "paramiko", "pydantic", "ssl"}


def deployctl(
    *argv: str, cwd: Path | None = None, streams: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """deployctl in a process of its own; `streams` are a shell's redirections."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "deployctl", *argv],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )


def processor_time(*argv: str) -> float:
    """The least seconds of three runs."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user = after.ru_utime - before.ru_utime
        spent.append(user + after.ru_stime - before.ru_stime)
    return min(spent)


def test_help_is_light() -> None:
    """Under 0.3 s of processor time, on a slow machine three times what its command line library
    alone takes; and nothing of ssh, http, hub or vllm imported."""
    told = " ".join(deployctl("--help").stdout.split())
    assert "Exit codes: 0 done or nothing to do" in told
    assert "12 plan --detailed-exitcode" in told
    library = processor_time(sys.executable, "-c", "import typer")
    assert processor_time(sys.executable, "-m", "deployctl", "--help") < max(0.3, 3 * library)
    code = (
        "import sys, deployctl.cli.app as app\n"
        "sys.argv = ['deployctl', '--help']\n"
        "try:\n    app.main()\nexcept SystemExit:\n    pass\n"
        "print(sorted(m for m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    modules = done.stderr
    loaded = {name for name in HEAVY if f"'{name}'" in modules}
    assert not loaded
    assert "'deployctl.vllm" not in modules
    assert "'deployctl.hosts" not in modules


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--version"], 0, "deployctl "),
        (["no-such-command"], 2, "No such command"),
        (["up"], 2, "--profile"),
        (
            ["up", "--profile", "demo", "--skip", "draftre"],
            2,
            "has no step draftre; did you mean drafter?",
        ),
        (["plan", "--profile", "demo", "--skip", "drafterr"], 2, "did you mean drafter?"),
        (["up", "--dry-run", "-p", "demo", "--skip", "drafterr"], 2, "did you mean drafter?"),
        (["up", "--profile", "demo", "--host", "elsewhere"], 2, "has no host elsewhere"),
        (["up", "--profile", "demo", "--lock-wait", "soon"], 2, "--lock-wait soon"),
        (["up", "--profile", "dmeo"], 2, "did you mean demo?"),
        (["run", "pu", "--profile", "demo"], 2, "no playbook is named pu"),
    ],
)
def test_exit_codes(argv: list[str], code: int, said: str) -> None:
    done = deployctl(*argv)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr


MISSPELT = """\
name: wrong
extends: demo
serve:
  prot: 8123
"""


def test_a_misspelt_key_is_told_with_its_place_and_nothing_is_touched(tmp_path: Path) -> None:
    profile = tmp_path / "wrong.yaml"
    profile.write_text(MISSPELT)
    root = tmp_path / "root"
    done = deployctl("up", "--profile", str(profile), "--set", f"hosts.0.root={root}")
    assert done.returncode == 3
    assert f"{profile}:4:3" in done.stderr
    assert "serve.prot" in done.stderr
    assert "port" in done.stderr.split("serve.prot", 1)[1]
    assert not root.exists()


@pytest.mark.parametrize(
    "verb", ["plan", "up", "status", "history", "doctor", "gc", "drafter", "rollback", "smoke"]
)
def test_json_is_a_document_where_the_host_is_out_of_reach(verb: str, tmp_path: Path) -> None:
    profile = tmp_path / "away.yaml"
    profile.write_text(
        "name: away\nextends: demo\n"
        "hosts: [{name: there, ssh: {address: 127.0.0.1, port: 1, user: nobody}}]\n"
    )
    done = deployctl(verb, "-p", str(profile), "--json", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 4, done.stderr
    document = json.loads(done.stdout)
    assert document["exit_code"] == 4
    assert "no connection" in json.dumps(document)


def test_the_list_of_commands_is_not_cut() -> None:
    assert "..." not in deployctl("--help").stdout.split("Commands:")[1]


def test_json_prints_one_document_even_when_refused(tmp_path: Path) -> None:
    profile = tmp_path / "wrong.yaml"
    profile.write_text(MISSPELT)
    done = deployctl("up", "--profile", str(profile), "--json")
    document = json.loads(done.stdout)
    assert (document["schema"], document["exit_code"]) == ("deployctl.report/1", 3)
    assert (document["outcome"], document["hosts"]) == ("failed", [])
