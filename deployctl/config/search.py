"""Where profiles, playbooks and host files are looked for, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from deployctl.config.document import display
from deployctl.config.shipped import data_directory
from deployctl.config.suggest import did_you_mean
from deployctl.errors import ConfigError, UsageError

Kind = Literal["profiles", "playbooks", "profiles/hosts"]
SINGULAR: dict[Kind, str] = {
    "profiles": "profile",
    "playbooks": "playbook",
    "profiles/hosts": "host",
}
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Place:
    """One folder that may hold `profiles/` and `playbooks/`, and what people call it."""

    label: str
    directory: Path


@dataclass(frozen=True)
class Found:
    """A file found by name. `shadowed` are files of that name in later places."""

    name: str
    path: Path
    place: str
    shadowed: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Search:
    """Places in their order; the first that has a name wins."""

    places: tuple[Place, ...]

    def found(self, kind: Kind) -> list[Found]:
        """Every name of a kind, sorted, with where it comes from and what it shadows."""
        names = {path.stem for place in self.places for path in _files(place.directory / kind)}
        return [found for name in sorted(names) if (found := self.named(kind, name))]

    def named(self, kind: Kind, name: str) -> Found | None:
        """The first file of that name; the same file reached twice counts once."""
        hits: list[tuple[Place, Path]] = []
        for place in self.places:
            for suffix in SUFFIXES:
                path = place.directory / kind / f"{name}{suffix}"
                if is_file(path) and not any(path.samefile(other) for _, other in hits):
                    hits.append((place, path))
        if not hits:
            return None
        (place, path), later = hits[0], hits[1:]
        return Found(name, path, place.label, tuple(other for _, other in later))

    def locate(self, kind: Kind, name_or_path: str) -> Found:
        """A file by name, or by path where it has a slash or a YAML suffix.

        Raises `UsageError` that names the places looked in and the nearest name.
        """
        word = SINGULAR[kind]
        if is_path(name_or_path):
            path = expanded(name_or_path)
            if is_file(path):
                return Found(path.stem, path, "path")
            raise UsageError(
                f"there is no {word} file {name_or_path}",
                "",
                f"Check the path; a bare name is looked up among {word}s.",
            )
        found = self.named(kind, name_or_path)
        if found is None:
            known = [item.name for item in self.found(kind)]
            raise UsageError(
                f"no {word} is named {name_or_path}{did_you_mean(name_or_path, known)}",
                f"looked in {', '.join(self.looked_in(kind))}",
                f"See `deployctl profile list`, or give a path: ./{name_or_path}.yaml",
            )
        return found

    def looked_in(self, kind: Kind) -> list[str]:
        """The folders of a kind, as shown to people."""
        return [display(place.directory / kind) for place in self.places]


def default_search(working_directory: Path | None = None) -> Search:
    """The working directory, the user's configuration directory, then what is shipped."""
    return Search(
        (
            Place("working directory", working_directory or Path.cwd()),
            Place("user", Path(platformdirs.user_config_dir("deployctl"))),
            Place("shipped", data_directory()),
        )
    )


def is_path(name_or_path: str) -> bool:
    """Whether this is a file's path, not a name to look up."""
    return "/" in name_or_path or name_or_path.endswith(SUFFIXES)


def expanded(path: str) -> Path:
    """A path with a home directory in place of `~`, where there is such a home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def is_file(path: Path) -> bool:
    """Whether there is such a file; raises `ConfigError` where that cannot be seen."""
    try:
        return path.is_file()
    except PermissionError as error:
        raise _hidden(path.parent, error) from None
    except OSError:
        return False


def _files(folder: Path) -> Iterator[Path]:
    try:
        if folder.is_dir():
            yield from (path for path in folder.iterdir() if path.suffix in SUFFIXES)
    except PermissionError as error:
        raise _hidden(folder, error) from None


def _hidden(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot look into {display(folder)}",
        error.strerror or str(error),
        "Make it readable for this user: profiles and playbooks are looked for there.",
    )
