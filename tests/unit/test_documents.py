"""The documentation: its commands are commands, its profiles are valid, its site builds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from deployctl.cli import reference
from deployctl.cli.app import app
from deployctl.config.loader import load_profile
from deployctl.config.search import Place, Search
from deployctl.config.shipped import data_directory
from deployctl.errors import UsageError

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [
    REPOSITORY / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.parent != DOCS / "reference"),
]
NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]


def blocks(page: Path) -> Iterator[str]:
    """The indented blocks of a page."""
    for found in re.finditer(r"(?:^ {4}.*\n|^\n(?= {4}))+", page.read_text("utf-8"), re.M):
        yield dedent(found[0].strip("\n"))


def command_lines(page: Path) -> list[list[str]]:
    """Arguments of each call of deployctl in a page's blocks."""
    lines = [line for block in blocks(page) for line in block.splitlines()]
    found = []
    for line in lines:
        for part in line.split(" | "):
            words = part.split(maxsplit=1)
            if len(words) == 2 and words[0] in ("deployctl", ".venv/bin/deployctl"):
                found.append(shlex.split(words[1], comments=True))
    return found


def parsed(arguments: list[str]) -> None:
    """Have the program's own parser take a command line; nothing is run."""
    command: Any = get_command(app)
    for one in _all(command):
        one.callback = lambda **_: None
    command(arguments, standalone_mode=False)


def _all(command: Any) -> Iterator[Any]:
    yield command
    for one in getattr(command, "commands", {}).values():
        yield from _all(one)


def test_a_wrong_command_line_is_refused() -> None:
    parsed(["up", "--profile", "x", "--parallel", "2"])
    for wrong in (["up", "--profil", "x"], ["cleen"], ["up", "-p", "x", "--parallel", "many"]):
        with pytest.raises(Exception, match=r"No such|valid integer"):
            parsed(wrong)


def test_pages_have_commands() -> None:
    assert sum(len(command_lines(page)) for page in PAGES) > 50


@pytest.mark.parametrize("name", NAMES)
def test_the_parser_takes_every_command_of_a_page(name: str) -> None:
    for arguments in command_lines(REPOSITORY / name):
        # A file or a time that only the reader has is no matter of the parser's.
        parsed(arguments)


@pytest.mark.parametrize("name", NAMES)
def test_the_parser_knows_every_command_in_a_sentence(name: str) -> None:
    """A sentence may name a command alone, without what it needs; a form with [ ] or | is none."""
    text = (REPOSITORY / name).read_text("utf-8")
    for found in re.finditer(r"`(?:\.venv/bin/)?deployctl ([^`\[|]+)`", text):
        try:
            parsed(shlex.split(found[1]))
        except Exception as error:
            if "Missing parameter" not in str(error):
                raise AssertionError(f"{found[0]}: {error}") from error


def test_the_profiles_of_the_pages_are_valid(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for page in PAGES:
        for block in blocks(page):
            for part in re.split(r"^(?=# profiles/)", block, flags=re.M):
                head, _, text = part.partition("\n")
                if re.fullmatch(r"# profiles/[\w/.-]+\.yaml", head):
                    files[head.removeprefix("# ")] = text.split("\n\n")[0] + "\n"
    profiles = [path for path in files if path.count("/") == 1]
    assert len(profiles) >= 5
    for host in ("gpu1", "gpu2", "gpu3", "rack1-containers"):
        files.setdefault(f"profiles/hosts/{host}.yaml", f"name: {host}\nssh: {{address: {host}}}\n")
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    search = Search((Place("here", tmp_path), Place("shipped", data_directory())))
    for path in profiles:
        load_profile(Path(path).stem, environ={}, search=search)


def _named(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, one in inner.items():
        yield from _named(one, (*path, name))


def test_every_help_text_has_an_example_that_the_parser_takes() -> None:
    for path, command in _named(get_command(app)):
        if path in {("schedule", "run"), ("profile", "path")}:  # for cron and for scripts
            continue
        text = " ".join((command.help or "").split())
        assert "Example" in text, path
        lines = re.split(r";? ?deployctl ", re.split(r"Examples?: deployctl ", text)[1])
        for line in lines:
            arguments = shlex.split(line.split(" > ")[0])
            assert arguments[: len(path)] == list(path)
            parsed(arguments)


def test_help_lists_and_prints_the_pages() -> None:
    listed = CliRunner().invoke(app, ["help"]).stdout
    assert "tutorial " in listed and "proxmox-container " in listed
    assert CliRunner().invoke(app, ["help", "tutorial"]).stdout.startswith("# Tutorial")
    # The reference is made from the code: a clone has no file of it.
    assert "exit-codes " in listed and "profile " in listed
    for name, title in reference.TITLES.items():
        assert CliRunner().invoke(app, ["help", name]).stdout.startswith(f"# {title}\n"), name
    assert CliRunner().invoke(app, ["help", "errors"]).stdout.startswith("# Exit codes\n")
    unknown = CliRunner().invoke(app, ["help", "tutorail"]).exception
    assert isinstance(unknown, UsageError) and "tutorial" in str(unknown)


def test_the_site_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("reference"))
    shutil.copy(REPOSITORY / "mkdocs.yml", tmp_path)
    pages = tmp_path / "docs" / "reference"
    subprocess.run([sys.executable, REPOSITORY / "scripts/reference.py", pages], check=True)
    assert "`serve.port`" in (pages / "profile.md").read_text("utf-8")
    assert "## acceptance" in (pages / "steps.md").read_text("utf-8")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", "site"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(build, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "explanation" / "architecture" / "index.html").exists()
