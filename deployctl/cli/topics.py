"""`deployctl help`: the pages of the documentation, in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deployctl.cli import output

OTHER_NAMES = dict.fromkeys(("errors", "error", "exit", "exit-code", "codes"), "exit-codes")
"""Words under which a page is looked for, and its name."""


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command("help")(show)


def show(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(help="A page's name; without it, list them.")
    ] = None,
) -> None:
    """Show a page of the documentation. Example: deployctl help tutorial"""
    from deployctl.cli import reference
    from deployctl.config.suggest import did_you_mean
    from deployctl.errors import UsageError

    found = pages()
    topic = OTHER_NAMES.get(topic or "", topic)
    if topic is None:
        titles = {name: _title(path) for name, path in found.items()} | reference.TITLES
        width = max(map(len, titles))
        output.answer([f"{name:{width}}  {title}" for name, title in titles.items()])
        return
    if topic in reference.TITLES:
        _print(reference.page(topic, context.find_root().command))
        return
    if topic not in found:
        found |= dict.fromkeys(reference.TITLES, Path())
        what = f"no page is named {topic}{did_you_mean(topic, found)}"
        group = context.find_root().command
        command = topic in getattr(group, "commands", {})
        own = f"{topic} is a command, with a help of its own: {topic} --help"
        raise UsageError(what, next=own if command else "deployctl help")
    _print(found[topic].read_text("utf-8"))


def pages() -> dict[str, Path]:
    """The written pages by name: guides first, then those of the folders."""
    from deployctl.config.shipped import data_directory

    folder = data_directory() / "docs"
    written = [path for path in folder.rglob("*.md") if path.parent != folder / "reference"]
    places = sorted(written, key=lambda path: (len(path.parts), path.as_posix()))
    return {path.stem: path for path in places if path.stem != "index"}


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next(lines, "").removeprefix("# ").strip()


def _print(text: str) -> None:
    if not sys.stdout.isatty():
        output.answer_text(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(100, Console().width)).print(Markdown(text, hyperlinks=False))
