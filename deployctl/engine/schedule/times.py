"""The time of a crontab line: five fields or a nickname, and nothing else. Pure.

The grammar is crontab(5)'s (EXTENSIONS included), which all descendants of Vixie's cron share.
Their parsers silently take more: Debian's installs `5#2`, `1.5` and `1~5` as if the rest of
the word were not there. What is not in the grammar is refused here for that reason.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import datetime

from cronsim import CronSim, CronSimError

from deployctl.errors import UsageError

EXAMPLE = 'give five fields, minute hour day month weekday: --at "0 4 * * *"'
NICKNAMES: dict[str, str | None] = {
    "@reboot": None,
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""What each stands for; cron knows them in lower case only. None: not a time of the clock."""


@dataclass(frozen=True)
class Field:
    """One of the five fields; `names` count from `first`. `period` is how many values there are
    before it begins again, None where that varies."""

    name: str
    first: int
    last: int
    period: int | None
    names: tuple[str, ...] = ()

    def number(self, word: str) -> int:
        """A number or a name of this field; raises ValueError with what is wrong."""
        if word.lower() in self.names:
            return self.first + self.names.index(word.lower())
        if not re.fullmatch(r"[0-9]{1,4}", word):
            raise ValueError(_foreign(word) or f"invalid {self.name} {word!r}")
        if not self.first <= int(word) <= self.last:
            raise ValueError(f"{self.name} {word} is not within {self.first}-{self.last}")
        return int(word)


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS = (
    Field("minute", 0, 59, 60),
    Field("hour", 0, 23, 24),
    Field("day of month", 1, 31, None),
    Field("month", 1, 12, 12, MONTHS),
    Field("weekday", 0, 7, 7, DAYS),
)


@dataclass(frozen=True)
class Time:
    """A time that every cron understands. `text` is how it stands in the crontab; `fields` are
    the five that it means, None for @reboot; `remarks` are what may surprise."""

    text: str
    fields: str | None
    remarks: tuple[str, ...] = ()

    def following(self, now: datetime, count: int = 1) -> list[datetime]:
        """The next times, in the zone that `now` carries; none for @reboot."""
        if self.fields is None:
            return []
        return list(itertools.islice(CronSim(self.fields, now), count))


def parse(at: str) -> Time:
    """Read a crontab line's time; raises UsageError that says what is not in the grammar."""
    try:
        return _parse(at)
    except ValueError as error:
        raise UsageError(f"--at {at!r}: {error}", next=EXAMPLE) from None


def _parse(at: str) -> Time:
    if re.search(r"[^ -~\t]", at):
        raise ValueError("a crontab's time is one line of plain ASCII characters")
    words = re.split(r"[ \t]+", at.strip(" \t"))
    if words[0].startswith("@"):
        return _nickname(words)
    if len(words) != len(FIELDS):
        raise ValueError(_count(words))
    remarks: list[str] = []
    read = [_field(field, word, remarks) for field, word in zip(FIELDS, words, strict=True)]
    if not (read[2].startswith("*") or read[4].startswith("*")):
        remarks.append("day of month and weekday are both given: cron runs it on either of them")
    text = " ".join(read)
    try:
        next(CronSim(text, datetime(2026, 1, 1)))
    except (CronSimError, StopIteration):
        raise ValueError("such a day never comes") from None
    return Time(text, text, tuple(remarks))


def _nickname(words: list[str]) -> Time:
    name = words[0]
    if name not in NICKNAMES:
        known = ", ".join(NICKNAMES)
        raise ValueError(f"{name} is not one of crontab's nicknames ({known})")
    if len(words) > 1:
        raise ValueError(f"{name} stands alone, {words[1]!r} follows it")
    return Time(name, NICKNAMES[name])


def _count(words: list[str]) -> str:
    if words == [""]:
        return "it is empty"
    if "=" in words[0]:
        return "a setting is a line of its own in the crontab, not part of the time"
    if len(words) == len(FIELDS) + 1:
        return "it has six fields; a crontab's time has five, without seconds and without a user"
    return f"it has {len(words)} {'field' if len(words) == 1 else 'fields'} and not five"


def _field(field: Field, word: str, remarks: list[str]) -> str:
    """One field as it is written into the crontab: names in lists and ranges as numbers, since
    some crons take none there. Adds what may surprise; raises ValueError for what is wrong."""
    parts = word.split(",")
    if "" in parts:
        raise ValueError(f"{field.name} {word!r} has an empty place in its list")
    if word.lower() in field.names:
        return word.lower()
    return ",".join(_range(field, part, remarks) for part in parts)


def _range(field: Field, part: str, remarks: list[str]) -> str:
    span, slash, step = part.partition("/")
    if span == "*":
        low, high = field.first, field.last
    else:
        first, dash, last = span.partition("-")
        low = high = field.number(first)
        if dash:
            high = field.number(last)
        elif slash:
            fixed = f"{first}-{field.last}/{step}"
            raise ValueError(f"{part}: a step follows * or a range, as in {fixed}")
        span = f"{low}-{high}" if high != low else str(low)
    if high < low:
        raise ValueError(f"{part} runs backwards{_sunday(field, part)}")
    if not slash:
        return span
    if not re.fullmatch(r"[0-9]{1,4}", step) or int(step) == 0:
        raise ValueError(_foreign(step) or f"{part}: invalid step {step!r}")
    if int(step) > high - low:
        remarks.append(
            f"{field.name} {part}: the step is longer than the range, only {low} is left"
        )
    elif span == "*" and (field.period is None or field.period % int(step)) and int(step) > 1:
        remarks.append(
            f"{field.name} {part}: cron restarts at {low} each time, the last gap is shorter"
        )
    return span if span == str(low) else f"{span}/{int(step)}"


def _sunday(field: Field, part: str) -> str:
    first, _, last = part.partition("-")
    if field.name != "weekday" or last.lower() not in ("sun", "0"):
        return ""
    return f"; Sunday as the last day is 7: {field.number(first)}-7"


def _foreign(word: str) -> str:
    """Whose grammar a word belongs to that cron's parsers take for something else."""
    if "~" in word:
        return f"{word!r}: random times are cronie's own, other crons read another time"
    if re.search(r"[#?]|[0-9][LlWw]", word) or word.upper() in ("L", "W", "LW"):
        return f"{word!r}: L, W, # and ? are Quartz's, cron has none of them"
    if re.match(r"[Hh](\(|$)", word):
        return f"{word!r}: H is Jenkins's, cron has no such thing"
    if word == "$":
        return "'$': the last day of a month is not in crontab(5)"
    return ""
