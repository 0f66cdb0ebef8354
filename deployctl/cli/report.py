"""`deployctl report`: an earlier run again, as lines, page, document or textfile."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import completion, options, output
from deployctl.errors import UsageError

LIST_SCHEMA = "deployctl.reports/1"


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(report)


def report(
    run: Annotated[str | None, typer.Argument(help="A run's id; the newest if absent.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            "-p",
            autocompletion=completion.profiles,
            help="The newest run of this profile.",
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the runs that are kept.")] = False,
    as_json: options.Json = False,
    metrics_file: options.MetricsFile = None,
) -> None:
    """Show a run's report and the path of its page. Example: deployctl report -p demo --open"""
    from deployctl.report import store, summary

    if listed:
        runs = store.runs()
        output.show({"schema": LIST_SCHEMA, "runs": runs}, map(store.line, runs), as_json)
        return
    if run is not None and profile is not None:
        raise UsageError("a run and --profile are given", next="name one of them")
    document = store.load(run) if profile is None else store.newest(_name(profile))
    path = store.save_page(document)
    if metrics_file is not None:
        from deployctl.report import textfile

        textfile.write(document, metrics_file)
    output.show(document, summary.lines(document, output.width()), as_json)
    output.note(f"page: {path}")
    if open_page:
        import webbrowser

        webbrowser.open(path.as_uri())


def _name(profile: str) -> str:
    """The name that a profile's file gives it; reports carry that one."""
    if "/" not in profile and not profile.endswith((".yaml", ".yml")):
        return profile
    from deployctl.cli import running

    return running.load(profile, [], []).name
