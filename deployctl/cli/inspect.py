"""Commands that only look: status, logs, history."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import options, output, running
from deployctl.errors import NotReady, Undecided


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command()(status)
    app.command()(logs)
    app.command()(history)


def status(
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    metrics_file: options.MetricsFile = None,
    as_json: options.Json = False,
) -> None:
    """Show what serves on each host, since when, and whether it is healthy now.

    Example: deployctl status -p demo
    """
    from deployctl.engine.inspect.status import survey
    from deployctl.report.serving import status_lines, unknown

    document = survey(running.load(profile, sets, hosts))
    if metrics_file is not None:
        from deployctl.report import textfile

        textfile.write_registry(textfile.status_registry(document), metrics_file)
    asked = [host for host in document["hosts"] if not host.get("error")]
    bad = [host for host in asked if not host["healthy"] or host["unproven_release"]]
    open_ = bool(bad) and all(unknown(host) and not host["unproven_release"] for host in bad)
    code = Undecided.exit_code if open_ else NotReady.exit_code if bad else 0
    running.leave(document, status_lines(document, output.width()), as_json, code)


def logs(
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="How many, newest last.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log.")] = False,
    job: Annotated[
        str | None, typer.Option(help="Show a job's log instead of the server's.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="Show the log of this release, also of a failed one.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Show the log of this unit; `status` lists them.")
    ] = None,
) -> None:
    """Show the server's log, a job's, another unit's, or that of a failed release; of several hosts
    each line has its host in front.

    Example: deployctl logs -p demo --follow
    """
    from deployctl.engine.inspect.logs import Wanted, log

    wanted = Wanted(lines, follow, job, release, unit)
    for text in log(running.load(profile, sets, hosts), wanted):
        output.answer_text(text)


def history(
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="How many, newest last.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Show the ledger: every run on each host, what it changed and how it ended.

    Example: deployctl history -p demo -n 5
    """
    from deployctl.engine.inspect.history import ledger
    from deployctl.report.serving import history_lines

    document = ledger(running.load(profile, sets, hosts), last)
    running.leave(document, history_lines(document, output.width()), as_json)
