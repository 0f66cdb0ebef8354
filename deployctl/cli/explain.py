"""`explain`: what ended a server or build, from its log."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from deployctl.cli import options, output
from deployctl.errors import Undecided


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(explain)


def explain(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A log file; - for stdin.")],
    kind: Annotated[
        Literal["server", "build"] | None,
        typer.Option(help="What wrote the log; recognized from its lines when absent."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Explain what ended the server or build that wrote a log; exit 11 if no cause is known.

    Example: deployctl explain server.log
    """
    from deployctl.engine.inspect import explain as reading
    from deployctl.report import explained

    document = reading.of_file(file, kind)
    output.show(document, explained.lines(document), as_json)
    if document["cause"] == reading.UNKNOWN:
        raise typer.Exit(Undecided.exit_code)
