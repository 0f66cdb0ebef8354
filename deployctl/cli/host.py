"""`deployctl host …`: how a host is reached."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import options, output
from deployctl.cli.command import Commands
from deployctl.errors import HostError

app = Commands(
    help="Show how a host is reached.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def host() -> None:
    """Options before the command."""


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="A host file's name, or any name given to ssh.")],
    ssh_config: Annotated[
        str | None,
        typer.Option("--ssh-config", "-F", metavar="FILE", help="Instead of your ssh_config."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what of ssh_config is honoured, harmless or refused for a host; nothing is connected.

    Example: deployctl host explain gpu1
    """
    from deployctl.engine.inspect.host_options import explain as explained
    from deployctl.report.ssh_ways import lines

    document = explained(name, ssh_config)
    output.show(document, lines(document), as_json)
    refused = any(way["way"] == "refused" for way in document["ways"])
    raise typer.Exit(HostError.exit_code if refused else 0)
