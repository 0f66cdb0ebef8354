"""What a schedule comes to before it is written: its line, when it runs, what may surprise."""

from __future__ import annotations

from typing import Any

from deployctl.engine.schedule import crontab, table, times
from deployctl.engine.schedule.entries import Entry

SCHEMA = "deployctl.schedule/1"
SHOWN = 3
"""Coming times that are named."""


def outlook(at: str, entry: Entry | None) -> dict[str, Any]:
    """A time, and an entry at it where there is one, against the user's crontab as it is now.

    `fields` are the five that `at` means, None for @reboot; `next` are its coming times with
    their offset, in the machine's zone; `line` is what the crontab gets, and `change` whether
    that is added, replaced or there already. Raises UsageError for an invalid `at`.
    """
    time = times.parse(at)
    now = crontab.now()
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "at": time.text,
        "fields": time.fields,
        "next": [one.isoformat() for one in time.following(now, SHOWN)],
        "zone": f"{now:%Z}",
        "remarks": list(time.remarks),
        "name": None,
        "line": None,
        "change": None,
    }
    if entry is not None:
        text = crontab.read()
        document["name"], document["line"] = entry.name, table.line(entry)
        document["change"] = _change(text, entry)
        document["remarks"] += table.remarks(text, entry, crontab.has_settings(), now)
    return document


def _change(text: str, entry: Entry) -> str:
    if table.line(entry) in text.split("\n"):
        return "none"
    return "replace" if table.without(text, entry.name) != text else "add"
