"""A crontab's other lines: settings, entries, and what is not understood."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.engine.schedule import entries, table
from deployctl.engine.schedule.entries import Entry
from deployctl.errors import UsageError

NOW = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)
ENTRY = Entry(
    name="toy",
    at="0 4 * * *",
    profile="/etc/toy.yaml",
    playbook="nightly",
    command=("/usr/bin/python3", "-m", "deployctl"),
    options=(),
    environment={},
    directory="/",
    log="/var/log/toy.log",
)


def remarks(text: str, cronie: bool | None = False) -> list[str]:
    return list(table.remarks(text, ENTRY, cronie, NOW))


@pytest.mark.parametrize(
    ("row", "name", "value"),
    [
        ("CRON_TZ=Japan", "CRON_TZ", "Japan"),
        ("  CRON_TZ = 'Asia/Tokyo'  ", "CRON_TZ", "Asia/Tokyo"),
        ('MAILTO=""', "MAILTO", ""),
        ("MAILTO=", "MAILTO", ""),
        ('"SHELL" = /bin/bash', "SHELL", "/bin/bash"),
        ("A=b=c # no comment", "A", "b=c # no comment"),
    ],
)
def test_a_setting(row: str, name: str, value: str) -> None:
    (other,) = table.others(row + "\n")
    assert (other.name, other.value) == (name, value)


@pytest.mark.parametrize(
    ("row", "time", "command"),
    [
        ("*/5 * * * * /bin/true", "*/5 * * * *", "/bin/true"),
        ("\t0 4 * * 1-5\tA=b env", "0 4 * * 1-5", "A=b env"),
        ("@daily cleanup --all", "@daily", "cleanup --all"),
        ("-0 4 * * * quiet", "0 4 * * *", "quiet"),
    ],
)
def test_an_entry(row: str, time: str, command: str) -> None:
    (other,) = table.others(row)
    assert (other.time, other.command) == (time, command)


@pytest.mark.parametrize(
    "row", ["0 4 * * *", "@daily", "hello world", "61 * * * * x", "0 4 L * * x"]
)
def test_a_line_that_is_not_understood_is_shown(row: str) -> None:
    (remark,) = remarks(f"# mine\n\n{row}\n")
    assert remark == f"line 3 of the crontab is not understood: {row}"


def test_settings_hold_for_the_lines_below_them() -> None:
    text = "A=1\n" + table.with_entry("", ENTRY) + "A=2\nB=3\n"
    assert table.settings(text, "toy") == {"A": "1"}
    assert table.settings(text, "new") == {"A": "2", "B": "3"}


def test_a_zone_of_the_table() -> None:
    text = "CRON_TZ=Asia/Tokyo\n"
    (remark,) = remarks(text, cronie=True)
    assert "CRON_TZ=Asia/Tokyo" in remark and "2026-12-01 04:00 JST" not in remark
    assert "next 2026-12-02 04:00 JST" in remark
    assert remarks(text, cronie=None) == [remark]
    assert remarks(text, cronie=False) == [], "Vixie's cron hands it on and takes no notice"
    assert "not a known time zone" in remarks("CRON_TZ=Nowhere/At_all\n", cronie=True)[0]
    assert "not a known time zone" in remarks("CRON_TZ=../../etc/passwd\n", cronie=True)[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('MAILTO=""\n', "mails no failures"),
        ("SHELL=/usr/bin/fish\n", "SHELL=/usr/bin/fish"),
        ("SHELL=/usr/sbin/nologin\n", "SHELL=/usr/sbin/nologin"),
        ("5 5 * * * deployctl up -p /etc/toy.yaml\n", "runs the same profile"),
    ],
)
def test_what_concerns_our_line(text: str, says: str) -> None:
    (remark,) = remarks(text)
    assert says in remark


def test_what_concerns_it_not() -> None:
    text = "MAILTO=ops\nSHELL=/bin/bash\nPATH=/bin\n5 5 * * * deployctl up -p other\n"
    text += table.with_entry("", replace(ENTRY, name="toy-2"))
    assert remarks(text) == []
    assert "up to 10 minutes late" in remarks("RANDOM_DELAY=10\n", cronie=True)[0]


def test_a_line_that_cron_cannot_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("/a\nb", "/" + "x" * 1200):
        monkeypatch.setenv("XDG_CONFIG_HOME", folder)
        with pytest.raises(UsageError, match="cron cannot keep"):
            table.line(ENTRY)


@given(st.text(max_size=200), st.booleans())
def test_any_table_is_kept_around_our_block(text: str, cronie: bool) -> None:
    text = text.replace("\r", " ")
    before = table.without(text, "toy")
    added = table.with_entry(before, ENTRY)
    assert table.without(added, "toy") == before
    for remark in table.remarks(added, ENTRY, cronie, NOW):
        assert remark
    assert entries.file_of("toy").name in added
