"""Whatever names a command of ours, in advice, help or documentation, names one that there is."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from deployctl.cli.app import app

REPOSITORY = Path(__file__).parents[3]
NAMED = re.compile(r"(`|: )?\bdeployctl((?: +(?:--?)?[\w./…{}=\[\]-]+)+)")
PLACEHOLDER = "NAME"


def sentences(path: Path) -> Iterator[str]:
    """A file's texts: all of a document, the string literals of a module with its gaps filled."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else PLACEHOLDER
                for part in node.values
            )
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@functools.cache
def commands() -> TyperGroup:
    """Everything that there is; made once, for it takes a while."""
    return typer.main.get_group(app)


def named(path: Path) -> Iterator[str]:
    """Command lines, by what comes before them or by their first word: the rest is prose."""
    verbs = commands().commands
    for text in sentences(path):
        for begun, words in NAMED.findall(text):
            if begun or words.split()[0] in verbs or " --" in words:
                yield words.strip()


def unknown(words: str) -> str:
    """Which word of a command line there is not; empty where all are there."""
    command: Any = commands()
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    verb = ""
    for word in words.split():
        if isinstance(command, TyperGroup) and not word.startswith("-"):
            if word not in command.commands:
                return "" if verb else word
            command, verb = command.commands[word], word
            options |= {name for one in command.params for name in one.opts}
        elif word.startswith("-") and word.partition("=")[0] not in options | {"-", "-h", "--help"}:
            return word
    return ""


FILES = [
    *sorted((REPOSITORY / "deployctl").rglob("*.py")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "playbooks").glob("*.yaml")),
    *sorted((REPOSITORY / "profiles").rglob("*.yaml")),
    REPOSITORY / "README.md",
]
NAMING = [str(at.relative_to(REPOSITORY)) for at in FILES if NAMED.search(at.read_text("utf-8"))]


def test_there_is_something_to_look_at() -> None:
    said = {words for name in NAMING for words in named(REPOSITORY / name)}
    assert len(said) > 60
    assert unknown("clean --dry-run") == "--dry-run"
    assert unknown("cleen --plan") == "cleen"
    assert unknown("drafter check FILE --target X") == ""


@pytest.mark.parametrize("name", NAMING)
def test_the_commands_that_a_file_names_are_there(name: str) -> None:
    words = {words: unknown(words) for words in named(REPOSITORY / name)}
    assert {line: word for line, word in words.items() if word} == {}
