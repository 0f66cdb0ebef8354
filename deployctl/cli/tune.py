"""`deployctl tune`: which number of draft tokens is fastest on a host."""

from __future__ import annotations

from typing import Annotated

import typer

from deployctl.cli import options, running
from deployctl.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(tune)


def tune(
    profile: options.Profile,
    values: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Numbers of draft tokens, 0 for no speculation; the serving one is added.",
        ),
    ] = "0,1,3,5,7",
    concurrency: Annotated[
        str, typer.Option(metavar="LIST", help="Requests at once, e.g. 1,4,16.")
    ] = "1,4",
    rounds: Annotated[
        int,
        typer.Option(
            min=2,
            help="Rounds of a candidate at each concurrency: as many requests at once.",
        ),
    ] = 48,
    interrupt: Annotated[
        bool,
        typer.Option(
            "--interrupt",
            help="Stop what serves while candidates are measured, and start it again at the end; "
            "without it they run beside it, where the memory allows.",
        ),
    ] = False,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure which number of draft tokens is fastest on a host; change nothing, and show what to
    set.

    The current release is started with each number on another port, and asked the profile's
    acceptance prompts. What cannot win is stopped early.

    Example: deployctl tune -p demo --values 1,3,5,7 --concurrency 1
    """
    found = running.load(profile, sets, hosts).hosts
    if len(found) > 1:
        names = ", ".join(host.name for host in found)
        raise UsageError(
            f"profile {profile} has {len(found)} hosts: {names}",
            next="measure one of them: --host NAME",
        )
    running.perform(
        profile,
        running.playbook_of("tune"),
        sets=sets,
        hosts=hosts,
        step_options={
            "tune": {
                "values": running.numbers("--values", values, 0),
                "concurrencies": running.numbers("--concurrency", concurrency, 1),
                "rounds": rounds,
                "interrupt": interrupt,
            }
        },
        release="current",
        lock_wait=lock_wait,
        as_json=as_json,
        quiet=quiet,
    )
