"""Scheduled runs: what each one is, kept as a file of its own.

A crontab line may hold 1000 characters, knows no environment and treats `%` as a line's end, so it
only names the file; `deployctl schedule run FILE` does the rest under the environment that stands
there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

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
    """This very deployctl, by absolute path: cron knows no virtual environment."""
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


@contextmanager
def saving(entry: Entry) -> Iterator[None]:
    """Write an entry; it appears when the body has ended well, and otherwise nothing is kept.

    Raises DeployError where it cannot be written.
    """
    path = file_of(entry.name)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_text(json.dumps(asdict(entry), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise _unwritten(path, error) from error
        yield
        try:
            temporary.replace(path)
        except OSError as error:
            raise _unwritten(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _unwritten(path: Path, error: OSError) -> DeployError:
    why = error.strerror or str(error)
    todo = f"make {path.parent} a folder that you can write to, with space left"
    return DeployError(f"{path} cannot be written: nothing is scheduled", why, todo)


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
        raise UsageError(f"{path.stem[:80]} is not an entry name", error.strerror or "") from error
    except (ValueError, TypeError, KeyError) as error:
        again = f"deployctl schedule remove {path.stem}, then schedule it again"
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
