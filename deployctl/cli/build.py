"""`build` and `verify`: the environment beside what serves, and the wheels that hosts keep."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import options, running

STEPS = ("preflight", "build", "verify")


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(build)
    app.command()(verify)


def build(
    profile: options.Profile,
    listed: Annotated[
        bool,
        typer.Option("--list", help="List kept wheels and running jobs."),
    ] = False,
    prune: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Delete old wheels until at most this much is kept, e.g. 20G; builds nothing.",
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(metavar="JOB", help="Stop a running build or download; builds nothing."),
    ] = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Build the environment beside what serves and seal it; attach to a build that runs already.

    Examples: deployctl build -p demo; deployctl build -p demo --list
    """
    if not listed and prune is None and stop is None:
        running.perform(
            profile,
            running.playbook_of(*STEPS, name="build"),
            sets=sets,
            hosts=hosts,
            lock_wait=lock_wait,
            as_json=as_json,
            quiet=quiet,
        )
    from deployctl.engine.inspect import running_jobs
    from deployctl.engine.ledger import wheels
    from deployctl.report import builds

    loaded = running.load(profile, sets, hosts)
    if stop is not None:
        document = running_jobs.stop(loaded, stop)
        lines = builds.job_lines(document)
    elif prune is not None:
        document = wheels.prune(loaded, wheels.size(prune))
        lines = builds.pruned_lines(document)
    else:
        document = wheels.listing(loaded)
        lines = builds.wheel_lines(document)
    running.leave(document, lines, as_json)


def verify(
    profile: options.Profile,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Compare the hash of every installed file, not only its size."),
    ] = False,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that the built environment is complete, as requested, and has the fixes.

    It is checked again although it was proven before; what is found damaged is rebuilt by the next
    `build` or `up`.

    Example: deployctl verify -p demo --deep
    """
    running.perform(
        profile,
        running.playbook_of("verify"),
        sets=sets,
        hosts=hosts,
        step_options={"verify": {"always": True, "deep": deep}},
        lock_wait=lock_wait,
        as_json=as_json,
        quiet=quiet,
    )
