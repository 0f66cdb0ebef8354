"""Where reports are kept: one JSON file a run, in the user's state directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from deployctl import redaction
from deployctl.errors import UsageError
from deployctl.report.document import SCHEMA


def directory() -> Path:
    """The directory of all reports (XDG_STATE_HOME)."""
    return user_state_path("deployctl") / "reports"


def save(document: Mapping[str, Any]) -> Path:
    """Keep a report; the file appears whole or not at all."""
    folder = directory()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder / f"{document['run']}.json"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    text = json.dumps(redaction.document(document), indent=2, default=str) + "\n"
    _write(temporary, text.encode())
    temporary.replace(path)
    return path


def _write(path: Path, data: bytes) -> None:
    """A file that its owner alone reads: a report holds answers and logs."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)


def save_page(document: Mapping[str, Any]) -> Path:
    """Make a report's page beside it, with the profile's earlier runs as its history."""
    from deployctl.report.page import page

    path = directory() / f"{document['run']}.html"
    earlier = [one for one in history(str(document["profile"])) if one["run"] < document["run"]]
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    # An answer may hold half a character, which no encoding has.
    _write(temporary, page(document, earlier).encode("utf-8", "xmlcharrefreplace"))
    temporary.replace(path)
    return path


def history(profile: str, last: int = 20) -> list[dict[str, Any]]:
    """The last kept reports of a profile, oldest first; a damaged file is passed over."""
    found: list[dict[str, Any]] = []
    for run in reversed(runs()):
        if len(found) == last:
            break
        document = _read(run)
        if document is not None and document["profile"] == profile and document["hosts"]:
            found.append(document)
    return found[::-1]


def runs() -> list[str]:
    """The ids of the kept runs, oldest first."""
    return sorted(path.stem for path in directory().glob("*.json"))


def line(run: str) -> str:
    """A kept run in a line: its id, then profile, playbook and outcome where it can be read."""
    document = _read(run)
    if document is None:
        return f"{run}  damaged"
    return f"{run}  {document['profile']}  {document['playbook']}: {document['outcome']}"


def newest(profile: str) -> dict[str, Any]:
    """The newest report of a profile; raises UsageError where none is kept."""
    found = history(profile, last=1)
    if not found:
        raise UsageError(
            f"no report of profile {profile}",
            f"looked in {directory()}",
            f"deployctl up --profile {profile}, or see: deployctl report --list",
        )
    return found[0]


def load(run: str | None = None) -> dict[str, Any]:
    """One run's report, or the newest; raises UsageError where there is none."""
    known = runs()
    name = run if run is not None else (known[-1] if known else None)
    if name is None or name not in known:
        raise UsageError(
            "no reports yet" if run is None else f"no report of run {run}",
            f"looked in {directory()}",
            "run deployctl up first, or name one of the runs there",
        )
    document = _read(name)
    if document is None:
        raise UsageError(
            f"the report of run {name} is damaged", next=f"remove {directory() / f'{name}.json'}"
        )
    return document


def _read(run: str) -> dict[str, Any] | None:
    """A kept report; None where its file is damaged, or holds something else."""
    try:
        document = json.loads((directory() / f"{run}.json").read_text("utf-8"))
        told = all(step["step"] for host in document["hosts"] for step in host["steps"])
        return document if told and document["schema"] == SCHEMA and document["profile"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
