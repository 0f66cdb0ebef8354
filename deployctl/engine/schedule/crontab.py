"""Scheduled runs: what each one is, kept as a file, and its lines in the user's crontab.

A crontab line may hold 1000 characters, knows no environment and treats `%` as a line's end, so it
only names the file; `deployctl schedule run FILE` does the rest under the environment that stands
there.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import platformdirs
from cronsim import CronSim, CronSimError

import deployctl
from deployctl.errors import DeployError, UsageError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Stated, since cron's own has no /usr/sbin, where Proxmox keeps `pct`."""
KEPT_VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class Entry:
    """One scheduled run. All paths are absolute; `environment` is the whole of what it sees, and
    `secrets_file` names a file of mode 0600 with NAME=VALUE lines that are added to it."""

    name: str
    at: str
    profile: str
    playbook: str
    command: tuple[str, ...]
    """What runs deployctl."""
    options: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    log: str
    secrets_file: str = ""

    @property
    def argv(self) -> list[str]:
        """The run's whole command."""
        return [*self.command, "run", self.playbook, "--profile", self.profile, *self.options]

    @property
    def plan(self) -> list[str]:
        """The same without touching anything: what `check` runs."""
        return [
            *self.command,
            "plan",
            "--playbook",
            self.playbook,
            "--profile",
            self.profile,
            "--json",
        ]


def folder() -> Path:
    """Where entries are kept (XDG_CONFIG_HOME)."""
    return Path(platformdirs.user_config_dir("deployctl")) / "schedules"


def log_folder() -> Path:
    """Where scheduled runs write their logs (XDG_STATE_HOME)."""
    return Path(platformdirs.user_state_dir("deployctl")) / "schedules"


def file_of(name: str) -> Path:
    """An entry's file."""
    return folder() / f"{name}.json"


def command() -> tuple[str, ...]:
    """This very deployctl, by absolute path: cron knows no virtual environment, and the folder
    that it starts in is not a place to import from."""
    return (str(Path(sys.executable).absolute()), "-P", "-m", "deployctl")


def stated_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a scheduled run sees: no agent, no terminal, a full PATH, nothing by chance."""
    stated = {"PATH": PATH, "HOME": str(Path.home()), "LANG": "C.UTF-8"}
    stated |= {name: environ[name] for name in KEPT_VARIABLES if name in environ}
    package = Path(deployctl.__file__).parent.parent
    if package.name not in ("site-packages", "dist-packages"):
        # From a checkout; an installed package needs no such hint.
        stated["PYTHONPATH"] = str(package)
    return stated


def check_expression(at: str) -> None:
    """Raise UsageError where this is no cron expression of five fields."""
    try:
        next(CronSim(at, datetime(2026, 1, 1)))
    except (CronSimError, StopIteration) as error:
        raise UsageError(
            f"--at {at!r}: {error or 'it never comes'}",
            next='give five fields, minute hour day month weekday: --at "0 4 * * *"',
        ) from None


def next_time(at: str, now: datetime) -> datetime:
    """When it runs next. `now` carries the time zone, which is the machine's: cron knows no
    other."""
    return next(CronSim(at, now))


def save(entry: Entry) -> Path:
    """Keep an entry; the file appears whole or not at all."""
    path = file_of(entry.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(entry), indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
    return path


def load(path: Path) -> Entry:
    """An entry from its file; raises UsageError where there is none, or it is damaged."""
    try:
        content = json.loads(path.read_text("utf-8"))
        for name in ("command", "options"):
            content[name] = tuple(content[name])
        return Entry(**content)
    except FileNotFoundError:
        known = ", ".join(entry.name for entry in entries()) or "none"
        raise UsageError(
            f"nothing is scheduled as {path.stem}", next=f"scheduled: {known}"
        ) from None
    except OSError as error:
        raise UsageError(f"{path.stem[:80]} is no entry's name", error.strerror or "") from error
    except (ValueError, TypeError, KeyError) as error:
        again = f"deployctl schedule remove {path.stem}, and schedule it anew"
        raise UsageError(f"{path} is damaged", str(error), again) from error


def entries() -> Iterator[Entry]:
    """Every entry that can be read, by name."""
    for path in sorted(folder().glob("*.json")):
        with suppress(UsageError):
            yield load(path)


def damaged() -> Iterator[UsageError]:
    """What is wrong with the entries that cannot be read, by name."""
    for path in sorted(folder().glob("*.json")):
        try:
            load(path)
        except UsageError as error:
            yield error


def remove(name: str) -> None:
    """Forget an entry, one that is damaged as well; raises UsageError where there is none."""
    path = file_of(name)
    if not path.exists():
        load(path)
    write_crontab(without(read_crontab(), name))
    path.unlink()


def line(entry: Entry) -> str:
    """An entry's crontab line; `%` would end the command there."""
    words = [*entry.command, "schedule", "run", str(file_of(entry.name))]
    # The environment of the interpreter itself, where the package lies in a checkout.
    hint = entry.environment.get("PYTHONPATH")
    if hint:
        words = ["/usr/bin/env", f"PYTHONPATH={hint}", *words]
    return f"{entry.at} {shlex.join(words)}".replace("%", "\\%")


_RUNS = " schedule run "


def _marks(name: str) -> tuple[str, str]:
    return f"# deployctl schedule {name}: begin", f"# deployctl schedule {name}: end"


def without(table: str, name: str) -> str:
    """A crontab's text without an entry's lines; everything else as it was. Pure."""
    begin, end = _marks(name)
    rest = table.removesuffix("\n").split("\n")
    kept: list[str] = []
    while begin in rest:
        at = rest.index(begin)
        kept, rest = [*kept, *rest[:at]], rest[at + 1 :]
        # Where somebody removed the end's mark, what follows is not ours but for one line.
        ours = rest.index(end) + 1 if end in rest else int(bool(rest) and _RUNS in rest[0])
        rest = rest[ours:]
    kept += rest
    return "\n".join(kept) + "\n" if any(kept) else ""


def with_entry(table: str, entry: Entry) -> str:
    """A crontab's text with an entry's lines, once. Pure."""
    begin, end = _marks(entry.name)
    return without(table, entry.name) + f"{begin}\n{line(entry)}\n{end}\n"


def read_crontab() -> str:
    """The user's crontab; empty where there is none."""
    answer = subprocess.run([_crontab(), "-l"], capture_output=True, text=True, check=False)
    if answer.returncode and "no crontab" not in answer.stderr:
        raise DeployError("the crontab cannot be read", answer.stderr.strip())
    return answer.stdout if answer.returncode == 0 else ""


def write_crontab(table: str) -> None:
    """Replace the user's crontab; cron's own program checks it first."""
    answer = subprocess.run(
        [_crontab(), "-"], input=table, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise DeployError("the crontab was refused", answer.stderr.strip())


def _crontab() -> str:
    found = shutil.which("crontab", path=f"{os.environ.get('PATH', '')}:{PATH}")
    if found is None:
        raise UsageError(
            "there is no crontab program here", next="install cron (on Debian: apt install cron)"
        )
    return found
