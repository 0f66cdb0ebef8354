"""This machine: what deployctl itself needs before a deployment."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from deployctl.config.host import HostSettings, SshSettings
from deployctl.config.loader import load_playbook
from deployctl.config.search import expanded
from deployctl.engine.inspect.checks.interface import Here, found
from deployctl.engine.schedule import check as scheduled
from deployctl.engine.schedule import crontab, entries
from deployctl.errors import DeployError
from deployctl.steps import registry
from deployctl.steps.gpus.finding import Finding

WHERE = "this machine"
STATE_FREE = 100 << 20
"""Bytes for reports and logs."""


def python(here: Here) -> Iterator[Finding]:
    """What runs deployctl."""
    yield found("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _ssh_settings(here: Here) -> list[SshSettings]:
    hosts: list[HostSettings | None] = list(here.profile.hosts) if here.profile else []
    made = []
    while hosts:
        host = hosts.pop(0)
        if host is not None:
            hosts.append(host.node)
            made += [host.ssh] if host.ssh is not None else []
    return made


def ssh_client(here: Here) -> Iterator[Finding]:
    """OpenSSH's client, which resolves ssh_config."""
    if not _ssh_settings(here):
        return
    program = shutil.which("ssh", path=here.environ.get("PATH"))
    if program is not None:
        yield found("ssh", "ok", program)
        return
    say = "no ssh program, which resolves your ssh_config; install OpenSSH's client"
    yield found("ssh", "failed", None, say, ("apt-get install openssh-client",), WHERE)


def keys(here: Here) -> Iterator[Finding]:
    """Private keys that a host file names: there, and readable by their owner alone."""
    named = [ssh.identity_file for ssh in _ssh_settings(here) if ssh.identity_file]
    for name in dict.fromkeys(named):
        path = expanded(name)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            say = f"the key {name} cannot be read: {error.strerror}; correct ssh.identity_file"
            yield found("key", "failed", None, say)
            continue
        if stat.S_IMODE(mode) & 0o077:
            say = f"the key {name} is readable by others (mode {stat.S_IMODE(mode):o})"
            yield found("key", "failed", oct(mode), say, (f"chmod 600 {path}",), WHERE)
        else:
            yield found("key", "ok", name)


def agent(here: Here) -> Iterator[Finding]:
    """The SSH agent that the environment names."""
    place = here.environ.get("SSH_AUTH_SOCK")
    if not place or not _ssh_settings(here):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2.0)
        try:
            client.connect(place)
        except OSError as error:
            why = error.strerror or str(error)
            say = (
                f"no SSH agent answers at SSH_AUTH_SOCK ({place}: {why}); its keys are not offered"
            )
            lines = ('eval "$(ssh-agent)" && ssh-add', "or: unset SSH_AUTH_SOCK")
            yield found("ssh-agent", "warning", None, say, lines, WHERE)
            return
    yield found("ssh-agent", "ok", place)


def state(here: Here) -> Iterator[Finding]:
    """Where reports are kept."""
    folder = Path(platformdirs.user_state_dir("deployctl"))
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if not there.is_dir() or not os.access(there, os.W_OK):
        say = f"{folder} cannot be written: reports are not kept; make it yours"
        yield found("reports", "warning", None, say, (f"ls -ld {there}",), WHERE)
    elif free < STATE_FREE:
        say = f"{free >> 20} MiB are free at {there}: reports may not be kept; free some"
        yield found("reports", "warning", free, say, (f"df -h {there}",), WHERE)
    else:
        yield found("reports", "ok", str(folder))


def secrets(here: Here) -> Iterator[Finding]:
    """The variables that the profile reads secrets from."""
    for name in scheduled.secret_names(here.profile) if here.profile else ():
        if here.environ.get(name):
            yield found("secret", "ok", f"{name} is set")
        else:
            say = f"the profile reads a secret from {name}, which is not set here"
            yield found("secret", "failed", None, say, (f"export {name}=…",), WHERE)


def playbook(here: Here) -> Iterator[Finding]:
    """The playbook that `up` runs for the profile."""
    if here.profile is None:
        return
    try:
        load_playbook(here.profile.playbook, registry.options())
    except DeployError as error:
        say = "; ".join(part for part in (error.what, *error.why.splitlines(), error.next) if part)
        yield found("playbook", "failed", here.profile.playbook, say)
        return
    yield found("playbook", "ok", here.profile.playbook)


def schedules(here: Here) -> Iterator[Finding]:
    """The profile's scheduled runs: their lines in the crontab, and the daemon that reads it."""
    mine = [one for one in entries.entries() if here.profile and one.profile == here.profile.name]
    if not mine:
        return
    try:
        crontab.read()
    except DeployError as error:
        yield found("cron", "failed", None, f"{error.what}; {error.next}")
        return
    for checked in [*(c for one in mine for c in scheduled.in_table(one)), scheduled.daemon()]:
        say = f"{checked.say}; {checked.next}" if checked.next else checked.say
        ok = checked.verdict == "ok"
        yield found("cron", checked.verdict, checked.say, "" if ok else say)
