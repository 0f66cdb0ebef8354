"""The time of a crontab line: crontab(5)'s grammar and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.engine.schedule import times
from deployctl.errors import UsageError

NOW = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)

GOOD = {
    "0 4 * * *": "0 4 * * *",
    "  5\t4  1,15 * * ": "5 4 1,15 * *",
    "*/15 0-23/2 * * 1-5": "*/15 0-23/2 * * 1-5",
    "0 0-4,8-12 * * *": "0 0-4,8-12 * * *",
    "5 4 * * sun": "5 4 * * sun",
    "5 4 * JAN Mon": "5 4 * jan mon",
    # Debian's page allows names neither in lists nor in ranges, cronie's does.
    "0 4 * * mon-fri": "0 4 * * 1-5",
    "0 4 * jan,jul *": "0 4 * 1,7 *",
    "0 4 * * 5-7": "0 4 * * 5-7",
    "05 004 * * *": "5 4 * * *",
    "0 4 29 2 *": "0 4 29 2 *",
}


@pytest.mark.parametrize("at", GOOD)
def test_what_every_cron_understands(at: str) -> None:
    assert times.parse(at).text == GOOD[at]


@pytest.mark.parametrize(
    ("at", "fields"),
    [
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@annually", "0 0 1 1 *"),
        ("@reboot", None),
    ],
)
def test_nicknames(at: str, fields: str | None) -> None:
    time = times.parse(at)
    assert (time.text, time.fields) == (at, fields)
    assert len(time.following(NOW, 2)) == (2 if fields else 0)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("", "empty"),
        ("0 4 * *", "4 fields"),
        ("0", "1 field "),
        ("0 0 4 * * *", "six fields"),
        ("* * * * * root", "six fields"),
        ("0 4 * * * ?", "six fields"),
        ("0 4 * * *\n* * * * *", "one line"),
        ("0 4 * * *\r", "one line"),
        ("0\xa04 * * *", "plain ASCII"),
        ("٤ 4 * * *", "plain ASCII"),
        ("60 * * * *", "minute 60 is not within 0-59"),
        ("0 24 * * *", "hour 24"),
        # Debian's page says 0-31 and 0-12; no cron takes 0.
        ("0 4 0 * *", "day of month 0"),
        ("0 4 * 0 *", "month 0"),
        ("0 4 * * 8", "weekday 8"),
        ("0 4 31 2 *", "never comes"),
        ("0 4 30 feb *", "never comes"),
        ("0 4 L * *", "Quartz"),
        ("0 4 LW * *", "Quartz"),
        ("0 4 ? * *", "Quartz"),
        ("0 4 15W * *", "Quartz"),
        ("0 4 * * 5L", "Quartz"),
        # Debian's crontab(1) installs the following four, as something else than what they say.
        ("0 4 * * 5#2", "Quartz"),
        ("1~5 * * * *", "cronie"),
        ("5-1 * * * *", "runs backwards"),
        ("1.5 * * * *", "invalid minute"),
        ("0 4 * * fri-sun", "Sunday as the last day is 7: 5-7"),
        ("5/10 * * * *", "as in 5-59/10"),
        ("*/0 * * * *", "invalid step '0'"),
        ("*/-5 * * * *", "invalid step"),
        ("*/5/2 * * * *", "invalid step"),
        ("1-3-5 * * * *", "invalid minute"),
        ("*5 * * * *", "invalid minute"),
        ("1,,2 * * * *", "empty place"),
        ("1, * * * *", "empty place"),
        ("-5 * * * *", "invalid minute"),
        ("0 4 * * monday", "invalid weekday 'monday'"),
        ("0 4 * mon *", "invalid month 'mon'"),
        ("H H * * *", "Jenkins"),
        ("H(0-29)/10 * * * *", "Jenkins"),
        ("0 4 $ * *", "last day of a month"),
        ("CRON_TZ=Asia/Tokyo 0 4 * * *", "a line of its own"),
        ("@Daily", "not one of crontab's nicknames"),
        ("@every 5m", "not one of crontab's nicknames"),
        ("@daily x", "stands alone"),
        ("9" * 5000 + " * * * *", "invalid minute"),
        ("x" * 5000, "1 field "),
    ],
)
def test_what_is_no_time_of_a_crontab(at: str, says: str) -> None:
    with pytest.raises(UsageError, match="--at") as refused:
        times.parse(at)
    assert says in refused.value.what
    assert "0 4 * * *" in refused.value.next


@pytest.mark.parametrize(
    ("at", "remark"),
    [
        ("0 4 1-7 * 1", "either of them"),
        ("*/90 * * * *", "only 0 is left"),
        ("10-20/30 * * * *", "only 10 is left"),
    ],
)
def test_what_may_surprise(at: str, remark: str) -> None:
    (said,) = times.parse(at).remarks
    assert remark in said


def test_times_are_the_machines() -> None:
    berlin = datetime(2026, 3, 28, 12, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    (following,) = times.parse("0 4 * * *").following(berlin)
    assert following.isoformat() == "2026-03-29T04:00:00+02:00"


def test_the_same_wall_clock_across_a_change_of_offset() -> None:
    paris = datetime(2026, 10, 24, 12, 0, tzinfo=ZoneInfo("Europe/Paris"))
    offsets = [one.isoformat()[-6:] for one in times.parse("0 4 * * *").following(paris, 2)]
    assert offsets == ["+01:00", "+01:00"]


def number(field: times.Field) -> st.SearchStrategy[str]:
    return st.integers(field.first, field.last).map(str) | st.sampled_from(
        [*field.names, *[name.upper() for name in field.names], str(field.first)]
    )


def part(field: times.Field) -> st.SearchStrategy[str]:
    pair = st.tuples(number(field), number(field)).map("-".join)
    step = st.tuples(pair | st.just("*"), st.integers(1, 99).map(str)).map("/".join)
    return number(field) | pair | step | st.just("*")


PLAIN = st.tuples(
    *(st.lists(part(field), min_size=1, max_size=3).map(",".join) for field in times.FIELDS)
).map(" ".join)


def meant(field: times.Field, word: str) -> set[int]:
    """What a field means, element by element, as cron's set_range does it."""
    found: set[int] = set()
    for one in word.split(","):
        span, _, step = one.partition("/")
        ends = [str(field.first), str(field.last)] if span == "*" else span.split("-")
        low, high = field.number(ends[0]), field.number(ends[-1])
        found |= set(range(low, high + 1, int(step or 1)))
    return found


@given(PLAIN)
def test_the_next_time_is_the_first_that_matches(at: str) -> None:
    try:
        time = times.parse(at)
    except UsageError as error:
        assert "backwards" in error.what or "never comes" in error.what
        return
    words = at.lower().split()
    minutes, hours, days, months, weekdays = (
        meant(field, word) for field, word in zip(times.FIELDS, words, strict=True)
    )
    star = words[2].startswith("*") or words[4].startswith("*")

    def matches(when: datetime) -> bool:
        day = when.day in days
        weekday = when.isoweekday() in weekdays or when.isoweekday() % 7 in weekdays
        either = day and weekday if star else day or weekday
        clock = when.minute in minutes and when.hour in hours
        return clock and when.month in months and either

    (following,) = time.following(NOW)
    assert matches(following)
    day = NOW
    while day < following and day < NOW + timedelta(hours=6):
        day += timedelta(minutes=1)
        assert matches(day) == (day == following) or day > following


@given(st.text(max_size=30) | st.text("0123456789*,-/~#LWH@ abcdmonjfri", max_size=20))
def test_any_text_is_a_time_or_refused(at: str) -> None:
    try:
        time = times.parse(at)
    except UsageError as error:
        assert error.next
        return
    assert time.text.isascii() and time.text.isprintable()
    assert times.parse(time.text).text == time.text
