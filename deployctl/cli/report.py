"""`deployctl report`: an earlier run again, as lines, page, document or textfile."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import options, output

LIST_SCHEMA = "deployctl.reports/1"


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(report)


def report(
    run: Annotated[str | None, typer.Argument(help="A run's id; the newest if absent.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the runs that are kept.")] = False,
    as_json: options.Json = False,
    metrics_file: options.MetricsFile = None,
) -> None:
    """Show a run's report, and where its page lies: one file that needs no network."""
    from deployctl.report import store, summary

    if listed:
        runs = store.runs()
        output.show({"schema": LIST_SCHEMA, "runs": runs}, map(store.line, runs), as_json)
        return
    document = store.load(run)
    path = store.save_page(document)
    if metrics_file is not None:
        from deployctl.report import textfile

        textfile.write(document, metrics_file)
    output.show(document, summary.lines(document), as_json)
    output.note(f"page: {path}")
    if open_page:
        import webbrowser

        webbrowser.open(path.as_uri())
