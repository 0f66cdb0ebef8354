"""`clean` and `doctor`: what stands in the way of serving, removed or only named."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

import typer

from deployctl.cli import options, output, running
from deployctl.errors import StagingFailed, Undecided, UsageError


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command()(clean)
    app.command()(doctor)


def clean(
    profile: options.Profile,
    scope: Annotated[
        str | None,
        typer.Option(
            metavar="ours|container|gpu",
            help="Whose processes on the profile's GPUs may be stopped; default: ours.",
        ),
    ] = None,
    plan_only: Annotated[
        bool,
        typer.Option("--plan", help="Show GPU holders and what would be stopped; stop nothing."),
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Reset the profile's GPUs when no process uses them.")
    ] = False,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    lock_wait: options.LockWait = "0s",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Stop the profile's server and stale processes of ours; prove port and GPU memory free.

    Example: deployctl clean -p mine --plan
    """
    chosen: dict[str, Any] = {"stop_unit": True, "reset": reset}
    if scope is not None:
        chosen["scope"] = scope
    if plan_only:
        running.lock_seconds(lock_wait)
        _plan(profile, chosen, sets, hosts, as_json)
        return
    running.perform(
        profile,
        running.playbook_of("clean"),
        sets=sets,
        hosts=hosts,
        step_options={"clean": chosen},
        lock_wait=lock_wait,
        as_json=as_json,
        quiet=quiet,
    )


def doctor(
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-p", envvar="DEPLOYCTL_PROFILE", help="Profile name or file."),
    ] = None,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    container_conf: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Check this container configuration file instead of hosts."
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The node's devices as `ls -l /dev/nvidia*` prints them."
        ),
    ] = None,
    cgroup: Annotated[
        int | None, typer.Option(metavar="1|2", min=1, max=2, help="The node's control groups.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find what would make a deployment fail: on this machine, on the way to the profile's hosts
    and on them (clock, disk, memory, port, tools, GPU, network, models), each with what to do.

    Exits 6 where something has failed, 4 where a host cannot be reached. Without a profile it
    examines this machine, with --container-conf a file alone. Example: deployctl doctor -p mine
    """
    from deployctl.report import findings

    if container_conf is not None:
        from deployctl.engine.inspect import container_conf as reader

        document = reader.examine(container_conf, devices, cgroup)
        output.show(document, findings.of_conf(document), as_json)
        raise typer.Exit(_code({f["verdict"] for f in document["findings"]}))
    if devices is not None or cgroup is not None:
        raise UsageError("--devices and --cgroup belong to --container-conf")
    if profile is None and (sets or hosts):
        raise UsageError("--set and --host need a profile", next="name one: --profile NAME")
    from deployctl.engine.inspect.doctor import examine

    document = examine(running.load(profile, sets, hosts) if profile else None)
    places = (document["here"], *document["hosts"])
    code = _code({finding["verdict"] for place in places for finding in place["findings"]})
    running.leave(document, findings.lines(document), as_json, code)


def _code(verdicts: set[str]) -> int:
    if "failed" in verdicts:
        return StagingFailed.exit_code
    return Undecided.exit_code if "unknown" in verdicts else 0


def _plan(
    name: str, chosen: dict[str, Any], sets: list[str], hosts: list[str], as_json: bool
) -> None:
    from deployctl.engine.run.coordinator import survey
    from deployctl.engine.run.options import Options
    from deployctl.report import document, summary
    from deployctl.report.holders import lines

    loaded = running.load(name, sets, hosts)
    playbook = running.playbook_of("clean")
    found = survey(loaded, playbook, Options(steps={"clean": chosen}))
    made = document.plan(loaded.name, playbook.name, found)
    planned = [host["plan"] for host in found if "plan" in host]
    held = (line for one in planned for line in lines(one.host, one.steps[0].plan.evidence))
    shown = chain(held, summary.plan_lines(made))
    running.leave(made, shown, as_json, running.of_plans(found))
