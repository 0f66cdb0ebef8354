"""What every command that runs steps does: load, run, print, keep the report, exit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from deployctl.cli import options, output
from deployctl.errors import UsageError

if TYPE_CHECKING:
    from deployctl.config.playbook import Playbook
    from deployctl.config.profile import Profile
    from deployctl.engine.run.plan import HostPlan


def load(name: str, sets: Sequence[str], hosts: Sequence[str] = ()) -> Profile:
    """The resolved profile, reduced to the hosts that `--host` and `--limit` leave."""
    from deployctl import redaction
    from deployctl.config import overrides
    from deployctl.config.host_patterns import PatternError, select
    from deployctl.config.loader import load_profile
    from deployctl.config.replicas import grouped
    from deployctl.config.secret_values import secret_values
    from deployctl.engine.inspect.proxmox import readers

    loaded = load_profile(name, sets=list(sets), environ=os.environ, readers=readers())
    profile = loaded.profile.spread()
    redaction.hide(secret_values(profile, os.environ))
    for said in overrides.near_misses(os.environ, type(profile)):
        output.warn(said)
    if not hosts:
        return profile
    known = [host.name for host in profile.hosts]
    try:
        groups = grouped(loaded.groups, profile.hosts)
        chosen = {one for given in hosts for one in select(given, known, groups)}
    except PatternError as error:
        raise UsageError(
            f"profile {profile.name} {error}", next=f"its hosts: {', '.join(known)}"
        ) from None
    return profile.model_copy(update={"hosts": [h for h in profile.hosts if h.name in chosen]})


def load_playbook(name: str) -> Playbook:
    """A playbook by name or file, its steps known to exist."""
    from deployctl.config import loader
    from deployctl.steps import registry

    return loader.load_playbook(name, registry.options())


def playbook_of(*steps: str, name: str = "") -> Playbook:
    """A playbook of a command's own steps, named by the last one where it has no name."""
    from deployctl.config.playbook import Playbook

    return Playbook.model_validate({"name": name or steps[-1], "steps": list(steps)})


def perform(
    profile_name: str,
    playbook: str | Playbook | None,
    *,
    sets: Sequence[str] = (),
    hosts: Sequence[str] = (),
    skip: Sequence[str] = (),
    step_options: Mapping[str, Mapping[str, Any]] | None = None,
    check_gates: bool = False,
    keep_failed: bool = False,
    release: str = "",
    only_if_changed: bool = False,
    lock_wait: str = "0s",
    parallel: int = options.PARALLEL,
    fail_fast: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    metrics_file: Path | None = None,
) -> None:
    """Run a playbook (the profile's own for None) and leave with the run's exit code."""
    profile = load(profile_name, sets, hosts)
    chosen = (
        load_playbook(profile.playbook if playbook is None else playbook)
        if playbook is None or isinstance(playbook, str)
        else playbook
    )
    check_skip(skip, chosen)
    from deployctl import redaction
    from deployctl.config.secret_values import hook_values
    from deployctl.engine.inspect import exposure
    from deployctl.engine.run.options import Options
    from deployctl.report.document import report as render
    from deployctl.steps import registry
    from deployctl.steps.interface import SERVER

    redaction.hide(hook_values(chosen, os.environ))
    if registry.makers(SERVER) & {item.step for item in chosen.steps}:
        for said in exposure.warnings(profile):
            output.warn(said)

    asked = Options(
        skip=frozenset(skip),
        steps=step_options or {},
        check_gates=check_gates,
        lock_wait=lock_seconds(lock_wait),
        keep_failed=keep_failed,
        release=release,
        only_if_changed=only_if_changed,
        parallel=parallel,
        fail_fast=fail_fast,
        render=lambda record: redaction.document(render(record)),
    )
    document = _run(profile, chosen, asked, quiet)
    if metrics_file is not None:
        _write_metrics(document, metrics_file)
    if as_json:
        output.say_document(document)
    else:
        from deployctl.report.summary import lines

        output.say(lines(document, output.width()))
    raise typer.Exit(document["exit_code"])


def _run(profile: Profile, playbook: Playbook, asked: Any, quiet: bool) -> dict[str, Any]:
    from deployctl import redaction
    from deployctl.engine.run.coordinator import run
    from deployctl.report import document, store, terminal

    with terminal.listener(quiet) as listen:
        made: dict[str, Any] = redaction.document(
            document.report(run(profile, playbook, asked, listen))
        )
    try:
        store.save(made)
        output.note(f"report: {store.save_page(made)}")
    except OSError as error:
        output.warn(f"the report is not kept: {error}")
    _notify(profile, made)
    return made


def _write_metrics(document: Mapping[str, Any], path: Path) -> None:
    """Write the textfile; the run has ended, and a file that cannot be written is a warning."""
    from deployctl.report import textfile

    try:
        textfile.write(document, path)
    except UsageError as error:
        output.warn(f"{error.what}: {error.why}")


def _notify(profile: Profile, document: Mapping[str, Any]) -> None:
    """Notify the profile's webhooks; a failed notification is a note, never a failure."""
    if not profile.notify:
        return
    from deployctl.report import notify

    for complaint in notify.send(profile, document, os.environ):
        output.note(complaint)


def leave(document: dict[str, Any], lines: Iterable[str], as_json: bool, code: int = 0) -> None:
    """Show every host, and leave with the exit code of one that could not be used, else `code`."""
    failed = [host["error"] for host in document["hosts"] if host.get("error")]
    code = failed[0]["exit_code"] if failed else code
    output.show({**document, "exit_code": code}, lines, as_json)
    raise typer.Exit(code)


def of_plans(surveyed: Iterable[Mapping[str, Any]]) -> int:
    """The exit code with which `up` would end for what plans say cannot be done, or is not known;
    0 where there is no such step."""
    plans: list[HostPlan] = [host["plan"] for host in surveyed if "plan" in host]
    impossible = [plan.impossible for plan in plans if plan.impossible is not None]
    unknown = [step for plan in plans for step in plan.unknown]
    stops = [*impossible, *unknown]
    return stops[0].step.failure.exit_code if stops else 0


def check_skip(skip: Sequence[str], playbook: Playbook) -> None:
    """Raise `UsageError` for a step to leave out that the playbook does not have."""
    from deployctl.config.suggest import did_you_mean

    known = [item.step for item in playbook.steps]
    unknown = [step for step in skip if step not in known]
    if unknown:
        raise UsageError(
            f"playbook {playbook.name} has no step {', '.join(unknown)}"
            f"{did_you_mean(unknown[0], known)}",
            next=f"its steps: {', '.join(known)}",
        )


def numbers(option: str, text: str, least: int) -> tuple[int, ...]:
    """The different numbers in a list such as 1,4,16, in its order; raises `UsageError`."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or min(found) < least:
        raise UsageError(f"{option} {text}: write numbers from {least} on, such as 1,4,16")
    return found


def lock_seconds(text: str) -> float:
    """The seconds of a --lock-wait; raises `UsageError`."""
    return duration("--lock-wait", text)


def duration(option: str, text: str) -> float:
    """The seconds of an option; raises `UsageError`."""
    from deployctl.config.base import LONGEST, seconds

    try:
        return min(float(seconds(text)), LONGEST)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error
