"""deployctl schedule: unattended runs by cron."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployctl.cli import options, output, running
from deployctl.cli.command import Commands
from deployctl.errors import UsageError

if TYPE_CHECKING:
    from deployctl.engine.schedule.check import Check
    from deployctl.engine.schedule.entries import Entry

app = Commands(
    help="Schedule unattended runs with cron.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SCHEMA = "deployctl.schedule/1"
CHECK_FAILED = 4

Name = Annotated[str, typer.Argument(help="The entry's name; see `schedule list`.")]


@app.command()
def add(
    at: Annotated[
        str,
        typer.Option(
            help="Minute, hour, day, month, weekday in the machine's time zone, or @daily and "
            "the like; see crontab(5)."
        ),
    ],
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-p", envvar="DEPLOYCTL_PROFILE", help="Profile name or file."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The entry's name; default: the profile's.")
    ] = None,
    playbook: Annotated[str | None, typer.Option(help="Playbook; the profile's own.")] = None,
    only_if_changed: options.OnlyIfChanged = False,
    lock_wait: options.LockWait = "0s",
    secrets_file: Annotated[
        Path | None, typer.Option(help="A file of mode 0600 with NAME=VALUE lines.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check it and show its line and its times; without a profile, --at."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Schedule a run; the same name again replaces it.

    Example: deployctl schedule add -p mine --playbook nightly --at "0 4 * * *"
    """
    from deployctl.engine.schedule import crontab
    from deployctl.engine.schedule.outlook import outlook

    if profile is None and not dry_run:
        raise UsageError("--profile is missing", next="name the profile to run: --profile")
    entry = None
    if profile is not None:
        entry = _entry(profile, at, name, playbook, only_if_changed, lock_wait, secrets_file)
    document = {**outlook(at, entry), "written": not dry_run}
    if entry is not None and not dry_run:
        crontab.add(entry)
    output.show(document, _outlook(document), as_json)


def _entry(
    profile: str,
    at: str,
    name: str | None,
    playbook: str | None,
    only_if_changed: bool,
    lock_wait: str,
    secrets_file: Path | None,
) -> Entry:
    from deployctl.config.search import default_search
    from deployctl.engine.schedule import entries, scheduled_run, times

    text = times.parse(at).text
    running.lock_seconds(lock_wait)
    loaded = running.load(profile, [], [])
    chosen = running.load_playbook(loaded.playbook if playbook is None else playbook)
    path = default_search().locate("profiles", profile).path.absolute()
    called = name or loaded.name
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", called):
        raise UsageError(f"--name {called}: lower-case letters, digits, '.', '_' and '-' only")
    given = ["--quiet", "--lock-wait", lock_wait]
    entry = entries.Entry(
        name=called,
        at=text,
        profile=str(path),
        playbook=str(_playbook_file(playbook)) if playbook else chosen.name,
        command=entries.command(),
        options=tuple([*given, "--only-if-changed"] if only_if_changed else given),
        environment=entries.stated_environment(os.environ),
        directory=str(Path.home()),
        log=str(entries.log_folder() / f"{called}.log"),
        secrets_file=str(secrets_file.absolute()) if secrets_file else "",
    )
    scheduled_run.secrets(entry)
    return entry


def _outlook(document: Mapping[str, Any]) -> Iterator[str]:
    if document["name"] is not None:
        words = {"add": "added", "replace": "replaced", "none": "there already"}
        done = words[document["change"]] if document["written"] else "not written: --dry-run"
        yield f"{document['name']}: crontab line {done}"
        yield f"  {document['line']}"
    following = ", ".join(document["next"]) or "when the machine has started"
    yield f"at {document['at']}, next {following} ({document['zone']})"
    for remark in document["remarks"]:
        yield f"  note: {remark}"
    if document["written"]:
        yield f"  check it: deployctl schedule check {document['name']}"


def _playbook_file(playbook: str) -> Path | str:
    from deployctl.config.search import default_search

    found = default_search().locate("playbooks", playbook)
    return playbook if found.place == "shipped" else found.path.absolute()


@app.command("list")
def list_entries(as_json: options.Json = False) -> None:
    """List what is scheduled and when it runs next.

    Example: deployctl schedule list
    """
    from deployctl.engine.schedule import entries

    found = list(entries.entries())
    lines = [line for entry in found for line in (_listed(entry), f"  log {entry.log}")]
    document = {"schema": SCHEMA, "entries": [asdict(entry) for entry in found]}
    for error in entries.damaged():
        output.warn(f"{error.what}: {error.why}; {error.next}")
    output.show(document, lines or ["nothing is scheduled"], as_json)


def _listed(entry: Entry) -> str:
    from deployctl.engine.schedule import crontab, times

    start = f"{entry.name}: {entry.playbook} {entry.profile} at {entry.at}"
    try:
        following = times.parse(entry.at).following(crontab.now())
    except UsageError as error:
        return f"{start}, which is not a crontab time: {error.what}"
    if not following:
        return f"{start}, when the machine has started"
    return f"{start}, next {following[0]:%Y-%m-%d %H:%M} ({following[0]:%Z}, UTC{following[0]:%z})"


def _checked(found: Iterable[Check]) -> Iterator[str]:
    for one in found:
        yield f"{one.check:<8} {one.verdict:<8} {one.say}".rstrip()
        if one.next:
            yield f"         next: {one.next}"


@app.command()
def remove(name: Name) -> None:
    """Remove an entry; its log stays.

    Example: deployctl schedule remove mine
    """
    from deployctl.engine.schedule import crontab, entries

    crontab.remove(name)
    log = entries.log_folder() / f"{name}.log"
    stays = f"; its log stays: {log}" if log.exists() else ""
    output.say([f"{name} is no longer scheduled{stays}"])


@app.command()
def check(name: Name, as_json: options.Json = False) -> None:
    """Run its plan as cron would (no agent, no terminal) and show what would fail.

    Example: deployctl schedule check mine
    """
    from deployctl.engine.schedule import check as schedule_check
    from deployctl.engine.schedule import entries

    entry = entries.load(entries.file_of(name))
    profile = running.load(entry.profile, [], [])
    found = schedule_check.check(entry, profile, running.load_playbook(entry.playbook))
    document = {"schema": SCHEMA, "name": name, "checks": [asdict(one) for one in found]}
    output.show(document, _checked(found), as_json)
    raise typer.Exit(CHECK_FAILED if any(one.verdict == "failed" for one in found) else 0)


@app.command()
def run(entry: Annotated[str, typer.Argument(help="An entry's name or file.")]) -> None:
    """Run an entry; the crontab calls it. Silent when all is well."""
    from deployctl.engine.schedule import entries, scheduled_run

    path = Path(entry) if os.sep in entry else entries.file_of(entry)
    code, words = scheduled_run.carry_out(entries.load(path))
    if words:
        output.say(words.split("\n"))
    raise typer.Exit(code)
