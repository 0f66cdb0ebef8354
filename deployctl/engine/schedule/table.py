"""The text of a crontab: our block in it, and what its other lines mean for ours. Pure.

Grammar: crontab(5), and env.c of Vixie's cron for settings. A setting holds for the lines below it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from deployctl.engine.schedule import times
from deployctl.engine.schedule.entries import Entry, file_of
from deployctl.errors import UsageError

LONGEST = 998
"""Characters of a command: Vixie's cron and its descendants keep 1000 at the least."""
SHELLS = ("sh", "bash", "dash", "ksh", "mksh", "zsh", "ash", "busybox")
"""Shells that read a quoted word as /bin/sh does."""
_RUNS = " schedule run "
_MARK = re.compile(r"# deployctl schedule \S+: (begin|end)")
_NAME = r"""(?:"(?P<double>[^"=]*)"|'(?P<single>[^'=]*)'|(?P<plain>[^\s="'][^\s=]*))"""
_SETTING = re.compile(_NAME + r"\s*=\s*(?P<value>.*?)\s*")


def line(entry: Entry) -> str:
    """An entry's crontab line; `%` would end the command there. Raises UsageError where cron
    could not keep it as one line."""
    words = [*entry.command, "schedule", "run", str(file_of(entry.name))]
    # The environment of the interpreter itself, where the package lies in a checkout.
    hint = entry.environment.get("PYTHONPATH")
    if hint:
        words = ["/usr/bin/env", f"PYTHONPATH={hint}", *words]
    run = shlex.join(words).replace("%", "\\%")
    if len(run.encode()) > LONGEST or not run.isprintable():
        raise UsageError(
            "cron cannot keep the command of this schedule",
            f"it has {len(run)} characters or characters that cannot be printed: {run[:200]!r}",
            "give XDG_CONFIG_HOME and the environment of deployctl short, plain paths",
        )
    return f"{entry.at} {run}"


def _marks(name: str) -> tuple[str, str]:
    return f"# deployctl schedule {name}: begin", f"# deployctl schedule {name}: end"


def without(text: str, name: str) -> str:
    """A crontab's text without an entry's lines; everything else as it was."""
    begin, end = _marks(name)
    rest = text.removesuffix("\n").split("\n")
    kept: list[str] = []
    while begin in rest:
        at = rest.index(begin)
        kept, rest = [*kept, *rest[:at]], rest[at + 1 :]
        # Where somebody removed the end's mark, what follows is not ours but for one line.
        ours = rest.index(end) + 1 if end in rest else int(bool(rest) and _RUNS in rest[0])
        rest = rest[ours:]
    kept += rest
    return "\n".join(kept) + "\n" if any(kept) else ""


def with_entry(text: str, entry: Entry) -> str:
    """A crontab's text with an entry's lines, once, at its end."""
    begin, end = _marks(entry.name)
    return without(text, entry.name) + f"{begin}\n{line(entry)}\n{end}\n"


@dataclass(frozen=True)
class Other:
    """A line that somebody else wrote: a setting with `name` and `value`, an entry with its
    `time` and `command`, or, with none of these, one that is not understood."""

    number: int
    text: str
    name: str | None = None
    value: str = ""
    time: str | None = None
    command: str = ""


def others(text: str) -> Iterator[Other]:
    """Every line that is neither empty, a comment, nor in a block of ours."""
    inside = False
    for number, raw in enumerate(text.split("\n"), 1):
        row = raw.strip(" \t")
        mark = _MARK.fullmatch(row)
        if mark:
            inside = mark[1] == "begin"
        elif row and not row.startswith("#") and not (inside and _RUNS in row):
            yield _other(number, row)


def _other(number: int, row: str) -> Other:
    setting = _SETTING.fullmatch(row)
    if setting:
        name = next(n for n in setting.group("double", "single", "plain") if n is not None)
        value = setting["value"]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        return Other(number, row, name=name, value=value)
    count = 1 if row.startswith("@") else len(times.FIELDS)
    words = re.split(r"[ \t]+", row.removeprefix("-"), maxsplit=count)
    if len(words) <= count:
        return Other(number, row)
    at = " ".join(words[:count])
    try:
        times.parse(at)
    except UsageError:
        return Other(number, row)
    return Other(number, row, time=at, command=words[count])


def settings(text: str, name: str) -> dict[str, str]:
    """The settings that hold for an entry's line: those above it, or all where it is not there."""
    begin, _ = _marks(name)
    lines = text.split("\n")
    above = lines[: lines.index(begin)] if begin in lines else lines
    return {o.name: o.value for o in others("\n".join(above)) if o.name is not None}


def remarks(text: str, entry: Entry, takes: bool | None, now: datetime) -> Iterator[str]:
    """What the other lines of a crontab mean for an entry's. `takes` is whether this cron takes
    CRON_TZ and RANDOM_DELAY from it, None where it is not known."""
    held = settings(text, entry.name)
    if "CRON_TZ" in held and takes is not False:
        yield _zone(held["CRON_TZ"], entry, now)
    if "RANDOM_DELAY" in held and takes is not False:
        delay = held["RANDOM_DELAY"]
        yield f"RANDOM_DELAY={delay} in the crontab: cron starts it up to {delay} minutes late"
    if held.get("MAILTO") == "":
        yield "MAILTO is empty in the crontab: cron mails no failures; the log has them"
    shell = held.get("SHELL", "/bin/sh")
    if not shell.startswith("/") or shell.rpartition("/")[2] not in SHELLS:
        yield f"SHELL={shell} in the crontab: cron runs the line by it, and it may not read it"
    for other in others(without(text, entry.name)):
        if other.name is None and other.time is None:
            yield f"line {other.number} of the crontab is not understood: {other.text}"
        elif "deployctl" in other.command and _names(other.command, entry.profile):
            yield f"line {other.number} of the crontab runs the same profile: {other.text}"


def _names(command: str, path: str) -> bool:
    """Whether a command has a path in it, be it within the quotes of `sh -c` or after a `=`."""
    word = rf"(?<![\w./-]){re.escape(path)}(?![\w./-])"
    return re.search(word, command.replace("\\%", "%")) is not None


def _zone(name: str, entry: Entry, now: datetime) -> str:
    try:
        there = times.parse(entry.at).following(now.astimezone(ZoneInfo(name)))
    except (ValueError, KeyError, OSError):
        return f"CRON_TZ={name} in the crontab is not a known time zone: its times are unknown"
    when = f", next {there[0]:%Y-%m-%d %H:%M %Z}" if there else ""
    return f"CRON_TZ={name} in the crontab: cron takes the time in that zone{when}"
