"""Crontabs as people have them: times, lines and words of crontab(1) from public reports, in our
own small form. Each row names its source."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deployctl.engine.schedule import crontab, table, times
from deployctl.engine.schedule.entries import Entry
from deployctl.errors import UsageError

NOW = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)  # a Monday
ENTRY = Entry(
    name="toy",
    at="0 4 * * *",
    profile="/srv/llm/toy 50%.yaml",
    playbook="nightly",
    command=("/usr/bin/python3", "-m", "deployctl"),
    options=(),
    environment={},
    directory="/",
    log="/var/log/toy.log",
)


@pytest.mark.parametrize(
    ("source", "at", "following", "remark"),
    [
        ("cronie-crond/cronie#142", "*/59 * * * *", ["11-30 20:59", "11-30 21:00"], "last gap"),
        ("Hosteroid/domain-monitor#81", "0 */24 * * *", ["12-01 00:00", "12-02 00:00"], "only 0"),
        ("haciz in K0p1-Git/cloudflare-ddns-updater#52", "0 */3 * * *", ["11-30 21:00"], ""),
        ("cronie-crond/cronie#195", "*/1 * * * *", ["11-30 20:01"], ""),
        ("systemd-cron, test/crontab", "00  0 * * 1-5", ["12-01 00:00"], ""),
        ("the same, weeks that end on Sunday", "0 0 * * 4-7", ["12-03 00:00", "12-04 00:00"], ""),
        ("the same, that begin with it", "00  0 * * 0-3", ["12-01 00:00", "12-02 00:00"], ""),
        (
            "javan/whenever#723",
            "0,5,10,15,20,25,30,35,40,45,50,55 * * * *",
            ["11-30 20:05", "11-30 20:10"],
            "",
        ),
        ("Debian's crontab(5), the second Saturday", "0 4 8-14 * *", ["12-08 04:00"], ""),
        ("crontab(5), both days", "30 4 1,15 * 5", ["12-01 04:30", "12-04 04:30"], "either"),
    ],
)
def test_times_of_people(source: str, at: str, following: list[str], remark: str) -> None:
    time = times.parse(at)
    found = [f"{one:%m-%d %H:%M}" for one in time.following(NOW, len(following))]
    assert found == following, source
    assert (remark in time.remarks[0]) if remark else not time.remarks


@pytest.mark.parametrize(
    ("source", "at", "says"),
    [
        ("cronie-crond/cronie#85", "5~15,35~45 * * * *", "cronie"),
        ("the same, without ends", "~ 3 * * *", "cronie"),
        ("treysu/letterboxd-plex-sync#1: quotes of an env file", '"0 2 * * *"', "invalid minute"),
        ("Huangyan0804/AutoCheckin#2: /etc/crontab's user", "2 * * * * root", "six fields"),
        (
            "lan-tianxiang/JS_TOOL#270's kind: no such day of the month",
            "10 9 32 * *",
            "not within 1-31",
        ),
        ("FreeBSD's crontab(5)", "@every_minute", "nicknames"),
        ("the same: seconds", "@600", "nicknames"),
    ],
)
def test_times_that_no_crontab_has(source: str, at: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        times.parse(at)
    assert says in refused.value.what, source


@pytest.mark.parametrize(
    ("source", "row", "command"),
    [
        ("saltstack/salt#15042", "* * * * * date '+%s'", "date '+%s'"),
        (
            "Uberspace/lab#1479",
            "*/5  *  *  *  * sleep $(( 1 + RANDOM \\% 60 )) ; php -f $HOME/html/cron.php",
            "sleep $(( 1 + RANDOM \\% 60 )) ; php -f $HOME/html/cron.php",
        ),
        (
            "systemd-cron, crontab(5)",
            '0 22 * * 1-5    mail -s "It\'s 10pm" joe%Joe,%%Where are your kids?%',
            'mail -s "It\'s 10pm" joe%Joe,%%Where are your kids?%',
        ),
        (
            "jikamens in cronie#142",
            "* * * * * if [ $(expr $(date +\\%s) / 60 \\% 58) = 0 ]; then echo a=b; fi",
            "if [ $(expr $(date +\\%s) / 60 \\% 58) = 0 ]; then echo a=b; fi",
        ),
        ("OpenBSD's crontab(5)", "0 4 * * * -ns backup", "-ns backup"),
        (
            "swirepe/personalscripts#1's kind",
            "@reboot\tsleep 60 && tmux new -d",
            "sleep 60 && tmux new -d",
        ),
    ],
)
def test_lines_of_people(source: str, row: str, command: str) -> None:
    (other,) = table.others(row + "\n")
    assert (other.name, other.command) == (None, command), source


@pytest.mark.parametrize(
    ("source", "text", "says"),
    [
        (
            "keithrz in dachev/node-crontab#15",
            "MAILTO=a@x.org,b@x.org\n00 09 * * * ls -l >> /log 2>&1\n",
            [],
        ),
        ("matheusd/qubes-borg-rsyncnet#1", "RANDOM_DELAY=45\n", ["up to 45 minutes late"]),
        ("a profile's export, pasted", "export PATH=$PATH:/usr/local/bin\n", ["not understood"]),
        ("a shell without its path: cron(8) looks for none", "SHELL=bash\n", ["SHELL=bash"]),
        (
            "javan/whenever#556: the command is within quotes",
            '0 3 * * * /bin/bash -l -c \'cd /mnt && deployctl up -p "/srv/llm/toy 50\\%.yaml" '
            '>> l_$(date +"\\%F").log\'\n',
            ["line 1 of the crontab runs the same profile"],
        ),
        (
            "the same with a lock and --profile=",
            "0 3 * * * flock -n /tmp/l deployctl up '--profile=/srv/llm/toy 50\\%.yaml'\n",
            ["line 1 of the crontab runs the same profile"],
        ),
        ("another profile", "0 3 * * * deployctl up -p '/srv/llm/toy 50\\%.yaml.old'\n", []),
    ],
)
def test_tables_of_people(source: str, text: str, says: list[str]) -> None:
    found = list(table.remarks(text, ENTRY, True, NOW))
    assert len(found) == len(says), source
    assert all(word in remark for word, remark in zip(says, found, strict=True))


@pytest.mark.parametrize(
    ("source", "said", "none"),
    [
        ("Vixie's cron, cronie, systemd-cron", "no crontab for root\n", True),
        (
            "bol-van/zapret#39: BusyBox",
            "crontab: can't open 'root': No such file or directory\n",
            True,
        ),
        ("puppet, provider of crontabs: Solaris", "crontab: can't open your crontab file.\n", True),
        ("the same", "crontab: you are not authorized to use cron. Sorry.\n", False),
        ("cron.deny", "You (u) are not allowed to use this program (crontab)\n", False),
        ("systemd-cron", "you can not display root's crontab\n", False),
        (
            "BusyBox in a broken container",
            "crontab: can't change directory to '/var/spool/cron': No such file or directory\n",
            False,
        ),
    ],
)
def test_words_for_no_crontab(source: str, said: str, none: bool) -> None:
    assert crontab.is_none(said) is none, source


@pytest.mark.parametrize(
    ("source", "said", "takes"),
    [
        ("cronie", "cronie 1.7.2\n", True),
        (
            "Vixie's",
            "crontab: invalid option -- 'V'\ncrontab: usage error: unrecognized option\n",
            False,
        ),
        (
            "marlonrichert/zsh-snap#121: BusyBox",
            "BusyBox v1.33.1 () multi-call binary.\n\nUsage: crontab [-c DIR]\n",
            False,
        ),
        (
            "systemd-cron's usage; its crontab(5) has CRON_TZ and RANDOM_DELAY",
            "usage:\n  crontab -l [-u USER]  List\n  crontab -t, --translate\n",
            True,
        ),
        ("anything else", "", None),
    ],
)
def test_which_cron_takes_settings(source: str, said: str, takes: bool | None) -> None:
    assert crontab.has_settings_by(said) is takes, source
