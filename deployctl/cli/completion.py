"""`deployctl completion SHELL`: completion of commands and of the names of profiles and hosts."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from deployctl.cli import output

PROGRAM = "deployctl"
VARIABLE = "_DEPLOYCTL_COMPLETE"
"""By which a shell's script asks the program for completions."""


class Shell(StrEnum):
    """The shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add this file's command; where a shell asks for completions, get ready to answer."""
    app.command()(completion)
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the completion script of a shell.

    Example: deployctl completion bash > ~/.local/share/bash-completion/completions/deployctl
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value)
    output.answer_text(script + "\n")


def profiles(incomplete: str) -> list[str]:
    """Names of profiles that begin so."""
    from deployctl.config.loader import list_profiles

    return [found.name for found in list_profiles() if found.name.startswith(incomplete)]


def hosts(incomplete: str) -> list[str]:
    """Names of hosts and groups that begin so."""
    from deployctl.config.loader import list_hosts

    return [found.name for found in list_hosts() if found.name.startswith(incomplete)]


def steps(incomplete: str) -> list[str]:
    """Names of steps that begin so."""
    from deployctl.steps import registry

    return [name for name in registry.steps() if name.startswith(incomplete)]
