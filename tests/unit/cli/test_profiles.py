"""`deployctl profile …` as a process of its own: streams, exit codes and what it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SMALLEST = """\
extends: demo
serve: {port: 8001}
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work/profiles").mkdir(parents=True)
    (tmp_path / "work/profiles/mine.yaml").write_text(SMALLEST)
    return tmp_path / "work"


def deployctl(work: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from deployctl.cli.app import main; main()"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(work.parent),
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-c", code, "profile", *arguments],
        cwd=work,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_list_says_where_each_comes_from_and_what_is_hidden(work: Path) -> None:
    (work / "profiles/demo.yaml").write_text("extends: demo\n")
    ran = deployctl(work, "list")
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert ["demo", "working", "directory", "profiles/demo.yaml"] in lines
    assert ["shadows", f"{ROOT}/profiles/demo.yaml"] in lines
    assert any(line[:2] == ["qwen36-dflash", "shipped"] for line in lines)
    assert "\x1b" not in ran.stdout


def test_show_prints_every_value_with_its_origin(work: Path) -> None:
    ran = deployctl(
        work, "show", "mine", "--origin", "--set", "serve.dtype=auto", DEPLOYCTL_BUILD__MAX_JOBS="3"
    )
    assert ran.returncode == 0, ran.stderr
    found = {
        line.split(":")[0].strip(): line.rpartition("  # ")[2]
        for line in ran.stdout.splitlines()
        if "  # " in line
    }
    assert found["port"] == "profiles/mine.yaml:2:15"
    assert found["dtype"] == "--set"
    assert found["max_jobs"] == "environment DEPLOYCTL_BUILD__MAX_JOBS"
    assert found["method"] == f"{ROOT}/profiles/demo.yaml:19:11"
    assert found["strategy"] == "default"


def test_json_is_one_document(work: Path) -> None:
    shown = json.loads(deployctl(work, "show", "mine", "--json").stdout)
    assert shown["profile"]["serve"]["port"] == 8001
    assert shown["origins"]["serve.port"] == "profiles/mine.yaml:2:15"
    listed = json.loads(deployctl(work, "list", "--json").stdout)
    assert {"mine", "demo"} <= {entry["name"] for entry in listed["profiles"]}
    schema = json.loads(deployctl(work, "schema", "playbook").stdout)
    assert schema["properties"]["steps"]


def test_path_can_be_used_in_a_command(work: Path) -> None:
    assert deployctl(work, "path", "mine").stdout == f"{work}/profiles/mine.yaml\n"


def test_an_invalid_profile_ends_with_3_and_its_places(work: Path) -> None:
    (work / "profiles/mine.yaml").write_text("extends: demo\nserve:\n  prot: 1\n  port: x\n")
    ran = deployctl(work, "show", "mine")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.splitlines() == [
        "error: profile profiles/mine.yaml is invalid: 2 problems",
        "  why: profiles/mine.yaml:3:3: serve.prot: unknown key; did you mean port?",
        "       profiles/mine.yaml:4:9: serve.port: needs a whole number, not the text 'x'",
        "  next: Correct it and try again; nothing was touched on any host.",
    ]


def test_validate_checks_all_and_tells_each(work: Path) -> None:
    (work / "playbooks").mkdir()
    (work / "playbooks/p.yaml").write_text("steps: [biuld]\n")
    ran = deployctl(work, "validate")
    assert ran.returncode == 3
    assert "valid    profile qwen36-dflash" in ran.stdout
    assert "invalid  playbook p  playbooks/p.yaml\n    playbooks/p.yaml:1:9: " in ran.stdout
    assert deployctl(work, "validate", "mine").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "mien"), "no profile is named mien; did you mean mine?"),
        (("show", "mine", "--set", "serve.prot=1"), "serve has no key prot; did you mean port?"),
        (("path", "./x.yaml"), "there is no profile file ./x.yaml"),
        (("schema", "hots"), "hots"),
        (("shwo",), "shwo"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    work: Path, arguments: tuple[str, ...], told: str
) -> None:
    ran = deployctl(work, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; import deployctl.cli.profiles; "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in "
        "('pydantic', 'yaml', 'paramiko', 'httpx', 'huggingface_hub')"
        " or m.startswith('deployctl.config')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr


def test_validate_reads_the_playbook_of_a_profile(work: Path) -> None:
    mine, playbook = work / "profiles/mine.yaml", work / "own.yaml"
    mine.write_text(f"{SMALLEST}playbook: ./own.yaml\n")
    done = deployctl(work, "validate", "mine")
    assert done.returncode == 3
    assert "profiles/mine.yaml:3:11: playbook: there is no playbook file ./own.yaml" in done.stdout
    playbook.write_text("name: own\nsteps:\n  - build\n  - step: smoke\n    with: {no_such: 1}\n")
    done = deployctl(work, "validate", "mine")
    assert done.returncode == 3
    assert "own.yaml:5:" in done.stdout and "no_such" in done.stdout
    playbook.write_text("name: own\nsteps: [build]\n")
    assert deployctl(work, "validate", "mine").returncode == 0
