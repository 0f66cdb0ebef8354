"""The user's crontab: read, changed and written by cron's own program, which checks it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from deployctl.engine.schedule import entries, table
from deployctl.engine.schedule.entries import PATH, Entry
from deployctl.errors import DeployError, UsageError

LOCALTIME = Path("/etc/localtime")


def add(entry: Entry) -> None:
    """Schedule an entry: the crontab is written and read back before the entry's file appears.
    Where anything fails, both are as they were."""
    wanted = table.line(entry)
    with _alone():
        before = read()
        try:
            with entries.saving(entry):
                write(table.with_entry(before, entry))
                if wanted not in read().split("\n"):
                    raise DeployError(
                        "the crontab does not hold the new line",
                        "crontab took it without a complaint and does not list it",
                        "check with crontab -l whether something else changes it",
                    )
        except BaseException:
            if read() != before:
                write(before)
            raise


def remove(name: str) -> None:
    """Forget an entry, one that is damaged as well; raises UsageError where there is none."""
    path = entries.file_of(name)
    if not path.exists():
        entries.load(path)
    with _alone():
        write(table.without(read(), name))
        path.unlink(missing_ok=True)


def read() -> str:
    """The user's crontab; empty where there is none."""
    answer = _crontab("-l")
    if answer.returncode and not is_none(answer.stderr):
        why = answer.stderr.strip() or f"crontab -l ended with {answer.returncode}"
        raise DeployError("the crontab cannot be read", why, "see crontab(1), cron.allow")
    return answer.stdout if answer.returncode == 0 else ""


def is_none(said: str) -> bool:
    """Whether `crontab -l` failed since the user has no crontab: in the words of Vixie's cron and
    its descendants, systemd-cron and dcron, of BusyBox, and of Solaris. Pure."""
    return bool(
        re.search(r"(?i)no crontab|can't open '[^'/]+': No such file|open your crontab", said)
    )


def write(text: str) -> None:
    """Replace the user's crontab; cron's own program checks it first."""
    answer = _crontab("-", text=text)
    if answer.returncode:
        why = (answer.stderr + answer.stdout).strip()
        todo = "nothing was changed; correct the line that it names with crontab -e"
        raise DeployError("the crontab was refused", why, todo)


def has_settings() -> bool | None:
    """Whether this cron takes CRON_TZ and RANDOM_DELAY from the crontab; None where the program
    does not say what it is."""
    answer = _crontab("-V")
    return has_settings_by(answer.stdout + answer.stderr)


def has_settings_by(said: str) -> bool | None:
    """The same from what `crontab -V` says. Pure."""
    # cronie has the option; systemd-cron takes both too, and its usage alone has a translation.
    if "cronie" in said or "--translate" in said:
        return True
    # Vixie's cron and busybox's know neither this option nor those settings.
    return False if "usage" in said.lower() else None


def now() -> datetime:
    """The time in the machine's zone, which is cron's whatever TZ says in a shell."""
    try:
        with LOCALTIME.open("rb") as file:
            return datetime.now(ZoneInfo.from_file(file))
    except (OSError, ValueError):
        return datetime.now().astimezone()


def _crontab(option: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    found = shutil.which("crontab", path=f"{os.environ.get('PATH', '')}:{PATH}")
    if found is None:
        raise UsageError(
            "there is no crontab program here", next="install cron (on Debian: apt install cron)"
        )
    return subprocess.run(
        [found, option],
        # Without input of ours, none at all: busybox and others would wait for a terminal's.
        input=text or "",
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )


@contextmanager
def _alone() -> Iterator[None]:
    """Keep others of us from writing the crontab between our reading and our writing."""
    lock = entries.folder() / ".lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        # No other user can open it, so none can hold it.
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        why = error.strerror or str(error)
        raise DeployError(f"{lock} cannot be used: nothing is scheduled", why) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
