"""What every command does: full help texts, and with --json a refusal is a document too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from deployctl.cli import output
from deployctl.errors import DeployError


class Command(TyperCommand):
    """One command."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DeployError as error:
            _tell(ctx, error)
            raise

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence, not cut: the list of commands breaks lines by itself."""
        return super().get_short_help_str(limit=1000)


class Group(TyperGroup):
    """A group that does something by itself where no command of it is named."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DeployError as error:
            if ctx.invoked_subcommand is None:
                _tell(ctx, error)
            raise


class Commands(typer.Typer):
    """An application or a group whose commands are such."""

    def command(self, name: str | None = None, **options: Any) -> Callable[..., Any]:
        options.setdefault("cls", Command)
        return super().command(name, **options)


def _tell(ctx: Any, error: DeployError) -> None:
    if ctx.params.get("as_json"):
        output.say_document(refused(ctx.params.get("profile"), error))


def refused(profile: str | None, error: DeployError) -> dict[str, Any]:
    """The document of a command that could not do what it was asked."""
    from deployctl.report.document import SCHEMA

    return {
        "schema": SCHEMA,
        "run": None,
        "profile": profile,
        "outcome": "failed",
        "exit_code": error.exit_code,
        "error": error.parts(),
        "hosts": [],
    }
