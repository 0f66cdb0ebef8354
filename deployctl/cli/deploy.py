"""Commands that change a host: up, run, build, verify, fetch, launch, down; and plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import typer

from deployctl.cli import options, running


class Part(NamedTuple):
    """A part of `up` as a command of its own, with the steps that it stands on."""

    steps: tuple[str, ...]
    help: str


PARTS = {
    "launch": Part(
        ("clean", "launch", "ready"),
        "Start the release and wait until it answers; runs no gates.\n\n"
        "Example: deployctl launch -p demo",
    ),
    "down": Part(
        ("down",),
        "Stop the profile's server with all its processes, and verify that they ended.\n\n"
        "Example: deployctl down -p demo",
    ),
}
PLAN_HAS_CHANGES = 12


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command()(up)
    app.command()(plan)
    app.command("run")(run_playbook)
    app.command()(fetch)
    app.command()(rehearse)
    for name, part in PARTS.items():
        app.command(name, help=part.help)(_part(name))


def up(
    profile: options.Profile,
    skip: options.Skip = [],
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    check_gates: options.CheckGates = False,
    keep_failed: options.KeepFailed = False,
    only_if_changed: options.OnlyIfChanged = False,
    lock_wait: options.LockWait = "0s",
    parallel: options.Parallel = options.PARALLEL,
    fail_fast: options.FailFast = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `plan`.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    metrics_file: options.MetricsFile = None,
) -> None:
    """Make the profile's hosts serve what it says, and prove it.

    Example: deployctl up -p demo
    """
    if dry_run:
        plan(profile, None, skip, sets, hosts, False, parallel, as_json)
    running.perform(
        profile,
        None,
        sets=sets,
        hosts=hosts,
        skip=skip,
        check_gates=check_gates,
        keep_failed=keep_failed,
        only_if_changed=only_if_changed,
        lock_wait=lock_wait,
        parallel=parallel,
        fail_fast=fail_fast,
        as_json=as_json,
        quiet=quiet,
        metrics_file=metrics_file,
    )


def run_playbook(
    playbook: Annotated[str, typer.Argument(help="Playbook name or file.")],
    profile: options.Profile,
    skip: options.Skip = [],
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    check_gates: options.CheckGates = False,
    keep_failed: options.KeepFailed = False,
    only_if_changed: options.OnlyIfChanged = False,
    lock_wait: options.LockWait = "0s",
    parallel: options.Parallel = options.PARALLEL,
    fail_fast: options.FailFast = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    metrics_file: options.MetricsFile = None,
) -> None:
    """Run a playbook for a profile.

    Example: deployctl run nightly -p demo
    """
    running.perform(
        profile,
        playbook,
        sets=sets,
        hosts=hosts,
        skip=skip,
        check_gates=check_gates,
        keep_failed=keep_failed,
        only_if_changed=only_if_changed,
        lock_wait=lock_wait,
        parallel=parallel,
        fail_fast=fail_fast,
        as_json=as_json,
        quiet=quiet,
        metrics_file=metrics_file,
    )


def plan(
    profile: options.Profile,
    playbook: Annotated[
        str | None, typer.Option(help="Playbook; the profile's own if absent.")
    ] = None,
    skip: options.Skip = [],
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help=f"Exit {PLAN_HAS_CHANGES} for changes.")
    ] = False,
    parallel: options.Parallel = options.PARALLEL,
    as_json: options.Json = False,
) -> None:
    """Show what `up` would change and why; touch nothing.

    Example: deployctl plan -p demo --set serve.port=30001
    """
    from deployctl.engine.inspect import exposure
    from deployctl.engine.run.coordinator import survey
    from deployctl.engine.run.options import Options
    from deployctl.engine.run.waves import order
    from deployctl.report import document, summary

    loaded = running.load(profile, sets, hosts)
    chosen = running.load_playbook(loaded.playbook if playbook is None else playbook)
    running.check_skip(skip, chosen)
    found = survey(loaded, chosen, Options(skip=frozenset(skip), parallel=parallel))
    made = document.plan(loaded.name, chosen.name, found)
    made["waves"] = order(loaded, found)
    made["exposure"] = exposure.document(loaded, chosen)
    code = PLAN_HAS_CHANGES if detailed_exitcode and made["changes"] else 0
    running.leave(made, summary.plan_lines(made), as_json, running.of_plans(found) or code)


def fetch(
    profile: options.Profile,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare file checksums, not only sizes.")
    ] = False,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Bring the target model and the drafter to the host.

    Example: deployctl fetch -p demo --deep
    """
    running.perform(
        profile,
        running.playbook_of("fetch"),
        sets=sets,
        hosts=hosts,
        step_options={"fetch": {"deep": deep}},
        lock_wait=lock_wait,
        as_json=as_json,
        quiet=quiet,
    )


def rehearse(
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Have the built vLLM parse the wanted command line and build its configuration, without
    weights and GPU memory; nothing that serves is touched.

    Example: deployctl rehearse -p demo
    """
    running.perform(
        profile,
        running.playbook_of("build", "verify", "fetch", "drafter", "rehearse"),
        sets=sets,
        hosts=hosts,
        step_options={"rehearse": {"always": True}},
        lock_wait=lock_wait,
        as_json=as_json,
        quiet=quiet,
    )


def _part(name: str) -> Callable[..., None]:
    """The command of one part of `up`."""

    def command(
        profile: options.Profile,
        sets: options.Sets = [],
        hosts: options.Hosts = [],
        lock_wait: options.LockWait = "0s",
        as_json: options.Json = False,
        quiet: options.Quiet = False,
    ) -> None:
        running.perform(
            profile,
            running.playbook_of(*PARTS[name].steps, name=name),
            sets=sets,
            hosts=hosts,
            lock_wait=lock_wait,
            as_json=as_json,
            quiet=quiet,
        )

    return command
