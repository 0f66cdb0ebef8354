"""What would go wrong with a scheduled run, found by running its plan as cron would."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deployctl.config.host import HostSettings
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.engine.schedule import crontab, scheduled_run, table
from deployctl.engine.schedule.entries import Entry
from deployctl.errors import UsageError

LIMIT = 180.0
"""Seconds for the plan; it is one connection and one round trip a host."""
ACCESS = 4
"""The exit code of a host that cannot be reached or refuses us."""


@dataclass(frozen=True)
class Check:
    """One thing that a scheduled run needs."""

    check: str
    verdict: Literal["ok", "failed", "warning"]
    say: str = ""
    next: str = ""


def paths(profile: Profile) -> Iterator[tuple[str, str]]:
    """Every path of this machine in a profile, with its key."""
    for index, host in enumerate(profile.hosts):
        yield from _host_paths(f"hosts.{index}", host)


def _host_paths(at: str, host: HostSettings) -> Iterator[tuple[str, str]]:
    for name in ("identity_file", "known_hosts", "config_file"):
        value = getattr(host.ssh, name) if host.ssh else None
        if value:
            yield f"{at}.ssh.{name}", value
    if host.node is not None:
        yield from _host_paths(f"{at}.node", host.node)


def static(
    entry: Entry, profile: Profile, playbook: Playbook, environ: Mapping[str, str]
) -> Iterator[Check]:
    """What can be checked without running anything. Pure but for looking up programs."""
    for key, value in paths(profile):
        if Path(value).is_absolute() or value.startswith("~/"):
            continue
        say = f"{key} is a relative path: {value}"
        yield Check("paths", "failed", say, f"write it absolute: {Path(value).absolute()}")
    for name in secret_names(profile):
        if environ.get(name):
            yield Check("secrets", "ok", f"{name} is set")
            continue
        say = f"the secret {name} is not set for a scheduled run"
        there = entry.secrets_file or "a file of mode 0600, given as --secrets-file"
        yield Check("secrets", "failed", say, f"write a line {name}=… into {there}")
    hooks = [h for item in playbook.steps for h in (*item.before, *item.after)]
    for hook in (*hooks, *playbook.after):
        for name in hook.env:
            if name not in environ:
                say = f"hook {hook.run[0]} is given {name}, which a scheduled run does not have"
                yield Check("hooks", "warning", say, "write it into the file of --secrets-file")
        if hook.where == "here" and not shutil.which(hook.run[0], path=environ["PATH"]):
            say = f"hook {hook.run[0]} is not found on {environ['PATH']}"
            yield Check("hooks", "failed", say, "write its absolute path")


def secret_names(profile: Profile) -> list[str]:
    """The variables that a profile's run reads secrets from."""
    named = [*profile.serve.secrets.values(), *(one.webhook for one in profile.notify)]
    if profile.serve.api_key is not None:
        named.append(profile.serve.api_key)
    return sorted({settings.env for settings in named})


def check(entry: Entry, profile: Profile, playbook: Playbook) -> list[Check]:
    """Everything: what can be checked at once, then the plan under the environment of a run."""
    found = [*in_table(entry), daemon()]
    try:
        environ = scheduled_run.environment(entry)
    except UsageError as error:
        return [*found, Check("secrets", "failed", error.what, error.next)]
    found += static(entry, profile, playbook, environ)
    return [*found, plan(entry, environ)]


def in_table(entry: Entry) -> Iterator[Check]:
    """Whether an entry's line is in the crontab, and what cron would make of it."""
    text = crontab.read()
    if table.line(entry) in text.splitlines():
        yield Check("crontab", "ok", f"its line is in the crontab: {entry.at}")
    else:
        yield Check("crontab", "failed", "its line is not in the crontab", "schedule it again")
    for remark in table.remarks(text, entry, crontab.has_settings(), crontab.now()):
        yield Check("crontab", "warning", remark, "look at it with crontab -e")


def daemon(run: Path = Path("/run")) -> Check:
    """Whether something reads the crontab; `run` is the folder of running programs' files."""
    for name in ("crond.pid", "cron.pid"):
        try:
            pid = int((run / name).read_text("ascii"))
        except (OSError, ValueError):
            continue
        if Path(f"/proc/{pid}").exists():
            return Check("cron", "ok", f"the cron daemon runs, pid {pid}")
    # As sd_booted(3) has it: where systemd is init.
    managed = (run / "systemd" / "system").is_dir()
    start = "systemctl start cron" if managed else "service cron start"
    return Check("cron", "warning", "no running cron daemon was found", f"start it: {start}")


def plan(entry: Entry, environ: Mapping[str, str]) -> Check:
    """Run the plan without agent, terminal or anything else that is not stated."""
    try:
        answer = subprocess.run(
            entry.plan,
            env=dict(environ),
            cwd=entry.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check("plan", "failed", f"no plan within {LIMIT:g} s", "run it by hand")
    except OSError as error:
        return Check("plan", "failed", f"it cannot be started: {error}", "schedule it again")
    if answer.returncode == 0:
        return Check("plan", "ok", "every host was reached and every question answered")
    said, todo = _error(answer.stderr)
    if answer.returncode == ACCESS and _has_agent() and "SSH_AUTH_SOCK" not in environ:
        todo = (
            "an SSH agent runs for you and not for cron: name a key without passphrase in the "
            f"host file (identity_file); {todo}"
        )
    return Check("plan", "failed", said, todo)


def _has_agent() -> bool:
    return bool(os.environ.get("SSH_AUTH_SOCK"))


def _error(text: str) -> tuple[str, str]:
    """What failed and what to do, from an error's three parts on stderr."""
    what, why, todo = "it fails", [], ""
    for line in text.splitlines():
        if line.startswith("error: "):
            what = line.removeprefix("error: ")
        elif line.startswith("  why: "):
            why.append(line.removeprefix("  why: "))
        elif line.startswith("       ") and why:
            why.append(line.strip())
        elif line.startswith("  next: "):
            todo = line.removeprefix("  next: ")
    if what == "it fails":
        why = text.strip().splitlines()[-1:]
    return (f"{what}: {' '.join(why)}" if why else what), todo
