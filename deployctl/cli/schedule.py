"""deployctl schedule: runs without anybody there, by cron."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deployctl.cli import options, output, running
from deployctl.cli.command import Commands
from deployctl.errors import UsageError

if TYPE_CHECKING:
    from deployctl.engine.schedule.check import Check
    from deployctl.engine.schedule.crontab import Entry

app = Commands(
    help="Runs without anybody there, by cron.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SCHEMA = "deployctl.schedule/1"
CHECK_FAILED = 4

Name = Annotated[str, typer.Argument(help="What it is scheduled as; see `schedule list`.")]


@app.command()
def add(
    profile: options.Profile,
    at: Annotated[
        str, typer.Option(help="Minute, hour, day, month, weekday in the machine's time zone.")
    ],
    name: Annotated[str | None, typer.Option(help="What to call it; the profile's name.")] = None,
    playbook: Annotated[str | None, typer.Option(help="Playbook; the profile's own.")] = None,
    only_if_changed: options.OnlyIfChanged = False,
    lock_wait: options.LockWait = "0s",
    secrets_file: Annotated[
        Path | None, typer.Option(help="A file of mode 0600 with NAME=VALUE lines.")
    ] = None,
) -> None:
    """Schedule a run; the same name again replaces it."""
    from deployctl.config.search import default_search
    from deployctl.engine.schedule import crontab, scheduled_run

    crontab.check_expression(at)
    running.lock_seconds(lock_wait)
    loaded = running.load(profile, [], [])
    chosen = running.load_playbook(loaded.playbook if playbook is None else playbook)
    path = default_search().locate("profiles", profile).path.absolute()
    called = name or loaded.name
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", called):
        raise UsageError(f"--name {called}: lower-case letters, digits, '.', '_' and '-' only")
    given = ["--quiet", "--lock-wait", lock_wait]
    entry = crontab.Entry(
        name=called,
        at=at,
        profile=str(path),
        playbook=str(_playbook_file(playbook)) if playbook else chosen.name,
        command=crontab.command(),
        options=tuple([*given, "--only-if-changed"] if only_if_changed else given),
        environment=crontab.stated_environment(os.environ),
        directory=str(Path.home()),
        log=str(crontab.log_folder() / f"{called}.log"),
        secrets_file=str(secrets_file.absolute()) if secrets_file else "",
    )
    scheduled_run.secrets(entry)
    crontab.save(entry)
    crontab.write_crontab(crontab.with_entry(crontab.read_crontab(), entry))
    output.say([_told(entry), f"  check it: deployctl schedule check {called}"])


def _playbook_file(playbook: str) -> Path | str:
    from deployctl.config.search import default_search

    found = default_search().locate("playbooks", playbook)
    return playbook if found.place == "shipped" else found.path.absolute()


@app.command("list")
def list_entries(as_json: options.Json = False) -> None:
    """What is scheduled, and when it runs next."""
    from deployctl.engine.schedule import crontab

    found = list(crontab.entries())
    lines = [line for entry in found for line in (_told(entry), f"  log {entry.log}")]
    document = {"schema": SCHEMA, "entries": [asdict(entry) for entry in found]}
    for error in crontab.damaged():
        output.warn(f"{error.what}: {error.why}; {error.next}")
    output.show(document, lines or ["nothing is scheduled"], as_json)


def _told(entry: Entry) -> str:
    from deployctl.engine.schedule import crontab

    now = datetime.now().astimezone()
    following = crontab.next_time(entry.at, now)
    zone = f"{following:%Z}, UTC{following:%z}"
    return (
        f"{entry.name}: {entry.playbook} {entry.profile} at {entry.at}, "
        f"next {following:%Y-%m-%d %H:%M} ({zone})"
    )


def _checked(found: Iterable[Check]) -> Iterator[str]:
    for one in found:
        yield f"{one.check:<8} {one.verdict:<8} {one.say}".rstrip()
        if one.next:
            yield f"         next: {one.next}"


@app.command()
def remove(name: Name) -> None:
    """Schedule it no more; its log stays."""
    from deployctl.engine.schedule import crontab

    crontab.remove(name)
    log = crontab.log_folder() / f"{name}.log"
    stays = f"; its log stays: {log}" if log.exists() else ""
    output.say([f"{name} is scheduled no more{stays}"])


@app.command()
def check(name: Name, as_json: options.Json = False) -> None:
    """Run its plan as cron would (no agent, no terminal) and say what would fail."""
    from deployctl.engine.schedule import check as schedule_check
    from deployctl.engine.schedule import crontab

    entry = crontab.load(crontab.file_of(name))
    profile = running.load(entry.profile, [], [])
    found = schedule_check.check(entry, profile, running.load_playbook(entry.playbook))
    document = {"schema": SCHEMA, "name": name, "checks": [asdict(one) for one in found]}
    output.show(document, _checked(found), as_json)
    raise typer.Exit(CHECK_FAILED if any(one.verdict == "failed" for one in found) else 0)


@app.command()
def run(entry: Annotated[str, typer.Argument(help="An entry's name or file.")]) -> None:
    """What the crontab calls: silent when all is well."""
    from deployctl.engine.schedule import crontab, scheduled_run

    path = Path(entry) if os.sep in entry else crontab.file_of(entry)
    code, words = scheduled_run.carry_out(crontab.load(path))
    if words:
        output.say([words])
    raise typer.Exit(code)
