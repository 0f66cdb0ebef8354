"""Carry out a scheduled run: silent when all is well, its end on stdout when not, always a log."""

from __future__ import annotations

import os
import stat
import subprocess
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import IO

from deployctl.engine.schedule.entries import Entry
from deployctl.errors import DeployError, LockHeld, UsageError

DONE = 0
SKIPPED = LockHeld.exit_code
"""Another run was at work: no matter, unless it is so again and again."""
SKIPS = 3
"""Runs skipped in a row after which it is reported."""
ENDED = "== exit code "
"""Begins the line that ends a run in its log."""
LOG_LIMIT = 1 << 20
LOGS_KEPT = 5
TAIL = 4000


def environment(entry: Entry) -> dict[str, str]:
    """What the run sees: the stated environment and the secrets from their file."""
    return {**entry.environment, **secrets(entry)}


def secrets(entry: Entry) -> dict[str, str]:
    """NAME=VALUE lines of the secrets file; raises UsageError where others may read it."""
    if not entry.secrets_file:
        return {}
    path = Path(entry.secrets_file)
    try:
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the secrets file cannot be read: {error}") from error
    if mode & 0o077:
        raise UsageError(
            f"others may read the secrets file {path}",
            f"its mode is {mode:04o}",
            f"chmod 600 {path}",
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"the secrets file {path} belongs to another user",
            f"its owner is {status.st_uid}, who can put any variable into the run",
            f"chown {os.geteuid()} {path}",
        )
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name.strip().removeprefix("export "): value for name, value in pairs if name[:1] != "#"}


def carry_out(entry: Entry) -> tuple[int, str]:
    """Run it; its exit code, and what to print: nothing when all is well, so that cron mails only
    what is wrong. Raises DeployError where its log cannot be written: then it does not run."""
    try:
        return _carried_out(entry, Path(entry.log))
    except OSError as error:
        raise DeployError(
            f"the log of the scheduled run {entry.name} cannot be written",
            str(error),
            f"make room for {entry.log}, and let this user write to it",
        ) from error


def _carried_out(entry: Entry, log: Path) -> tuple[int, str]:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    turn_over(log)
    began = datetime.now(UTC)
    with open(log, "ab", opener=_private) as file:
        file.write(f"== {began:%Y-%m-%dT%H:%M:%SZ} {' '.join(entry.argv)}\n".encode())
        file.flush()
        start = file.tell()
        code = _run(entry, file)
        file.write(f"{ENDED}{code}\n".encode())
    skips = skipped(log)
    if code == DONE or (code == SKIPPED and skips < SKIPS):
        return code, ""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - TAIL))
        tail = file.read().decode("utf-8", "replace")
    words = f"exit code {code}"
    if code == SKIPPED:
        words = f"skipped {skips} times in a row, another run holds the lock"
    return code, f"scheduled run {entry.name}: {words}\n{tail}(the whole log: {log})"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def skipped(log: Path) -> int:
    """How many of the last runs in a log were skipped, one after the other."""
    lines = reversed(log.read_text("utf-8", errors="replace").splitlines())
    ends = (line for line in lines if line.startswith(ENDED))
    return len(list(takewhile(lambda line: line == f"{ENDED}{SKIPPED}", ends)))


def _run(entry: Entry, log: IO[bytes]) -> int:
    env = environment(entry)
    try:
        return subprocess.run(
            entry.argv,
            env=env,
            cwd=entry.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    except OSError as error:
        raise UsageError(
            f"the scheduled run {entry.name} cannot be started",
            str(error),
            f"deployctl moved, or {entry.directory} is gone: schedule it again",
        ) from error


def turn_over(log: Path, limit: int = LOG_LIMIT, kept: int = LOGS_KEPT) -> None:
    """Begin a new log when this one has more than `limit` bytes; `kept` old ones stay."""
    if not log.exists() or log.stat().st_size <= limit:
        return
    for number in range(kept, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        newer = log.with_name(f"{log.name}.{number - 1}") if number > 1 else log
        if newer.exists():
            newer.replace(older)
