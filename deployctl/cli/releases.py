"""Commands about releases: rollback, diff, gc."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import options, running


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command()(rollback)
    app.command()(diff)
    app.command()(gc)


def rollback(
    profile: options.Profile,
    release: Annotated[
        str, typer.Argument(help="A release's id, the beginning of one, or `previous`.")
    ] = "previous",
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    parallel: options.Parallel = options.PARALLEL,
    fail_fast: options.FailFast = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Serve an earlier release with its original configuration, and prove it; on failure keep what
    serves.

    Example: deployctl rollback -p demo
    """
    running.perform(
        profile,
        "rollback",
        sets=sets,
        hosts=hosts,
        release=release,
        lock_wait=lock_wait,
        parallel=parallel,
        fail_fast=fail_fast,
        as_json=as_json,
        quiet=quiet,
    )


def diff(
    one: Annotated[str, typer.Argument(help="A release: id, its beginning, current, previous.")],
    other: Annotated[str, typer.Argument(help="The release to compare it with.")],
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    as_json: options.Json = False,
) -> None:
    """Show what differs between two releases: sources, packages, profile and figures.

    Example: deployctl diff previous current -p demo
    """
    from deployctl.engine.inspect.compare import compare
    from deployctl.report.releases import diff_lines

    document = compare(running.load(profile, sets, hosts), one, other)
    running.leave(document, diff_lines(document), as_json)


def gc(
    profile: options.Profile,
    keep: Annotated[
        int,
        typer.Option(min=0, help="Good releases to keep beside the current and the previous one."),
    ] = 2,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed.")] = False,
    as_json: options.Json = False,
) -> None:
    """Remove old and failed releases, and what no release of any profile refers to any more.

    Example: deployctl gc -p demo --keep 2 --dry-run
    """
    from deployctl.engine.ledger.garbage import collect
    from deployctl.report.releases import gc_lines

    document = collect(running.load(profile, sets, hosts), keep, dry_run)
    running.leave(document, gc_lines(document), as_json)
