"""Everything that can be named: profiles, playbooks and hosts, their places and their validity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployctl.config.document import display
from deployctl.config.loader import Loaded, check_host_file, load_playbook, load_profile
from deployctl.config.search import SINGULAR, Found, Kind, Search, default_search
from deployctl.config.step_options import Options
from deployctl.config.yamltext import read
from deployctl.errors import ConfigError, UsageError

SCHEMA = "deployctl.profiles/1"


@dataclass(frozen=True)
class Entry:
    """One file that can be named: `word` is profile, playbook or host; `file` is for people."""

    word: str
    found: Found
    description: str

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def file(self) -> str:
        return display(self.found.path)

    @property
    def shadowed(self) -> list[str]:
        """Files of the same name that this one shadows."""
        return [display(path) for path in self.found.shadowed]


def entries(search: Search | None = None) -> list[Entry]:
    """Every file that can be named, profiles first."""
    places = search or default_search()
    return [_entry(kind, found) for kind in SINGULAR for found in places.found(kind)]


def chosen(names: Sequence[str], search: Search | None = None) -> list[Entry]:
    """The profiles of these names or files; everything when there are none."""
    places = search or default_search()
    if not names:
        return entries(places)
    return [_entry("profiles", places.locate("profiles", name)) for name in names]


def check(entry: Entry, steps: Options, search: Search | None = None) -> str:
    """What is wrong with a file, line by line; empty when it is valid.

    The environment's overrides are left out: they are not the file's doing.
    """
    path = str(entry.found.path.absolute())
    try:
        if entry.word == "profile":
            return _playbook_of(load_profile(path, environ={}, search=search), steps, search)
        if entry.word == "playbook":
            load_playbook(path, steps, search=search)
        else:
            check_host_file(Path(path), search=search)
    except (ConfigError, UsageError) as error:
        return error.why or error.what
    return ""


def _playbook_of(loaded: Loaded, steps: Options, search: Search | None) -> str:
    """What is wrong with the playbook that a profile names; empty where nothing is."""
    name = loaded.profile.playbook
    try:
        load_playbook(name, steps, search=search)
    except UsageError as error:
        return f"{loaded.origins['playbook']}: playbook: {error.what}"
    except ConfigError as error:
        return error.why or error.what
    return ""


def warnings(entry: Entry, search: Search | None = None) -> list[str]:
    """What a valid profile says that is not known here."""
    if entry.word != "profile":
        return []
    path = str(entry.found.path.absolute())
    drafter = load_profile(path, environ={}, search=search).profile.drafter
    return [] if drafter is None else drafter.warnings()


def as_document(found: Sequence[Entry]) -> dict[str, Any]:
    """The list as JSON data, by kind."""
    document: dict[str, Any] = {"schema": SCHEMA}
    for word in SINGULAR.values():
        document[f"{word}s"] = [
            {
                "name": entry.name,
                "from": entry.found.place,
                "path": str(entry.found.path.absolute()),
                "description": entry.description,
                "shadows": [str(path.absolute()) for path in entry.found.shadowed],
            }
            for entry in found
            if entry.word == word
        ]
    return document


def as_table(found: Sequence[Entry]) -> str:
    """The list in plain columns, one block a kind."""
    rows = [(entry.name, entry.found.place, entry.file) for entry in found]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines: list[str] = []
    for word in SINGULAR.values():
        lines += ["", f"{word}s"] if lines else [f"{word}s"]
        for entry in found:
            if entry.word != word:
                continue
            cells = (entry.name, entry.found.place, entry.file)
            row = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append(f"  {row}  {entry.description}".rstrip())
            lines += [f"  {'':{widths[0]}}  shadows {file}" for file in entry.shadowed]
    return "\n".join(lines)


def _entry(kind: Kind, found: Found) -> Entry:
    try:
        description = read(found.path, []).child("description")
        text = " ".join(str(description.content).split()) if description else ""
    except ConfigError:
        text = "(cannot be read: see `deployctl profile validate`)"
    return Entry(SINGULAR[kind], found, text)
