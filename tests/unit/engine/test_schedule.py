"""Scheduled runs: their crontab lines, times, logs, and what a check finds without running."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.engine.schedule import check as schedule_check
from deployctl.engine.schedule import crontab, entries, scheduled_run, table
from deployctl.engine.schedule.entries import Entry
from deployctl.errors import DeployError, UsageError

TABLE = "MAILTO=ops\n# their own\n5 * * * * /usr/bin/true\n"


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "50% config"))
    return Entry(
        name="toy",
        at="0 4 * * *",
        profile="/etc/toy.yaml",
        playbook="nightly",
        command=(sys.executable, "-c", "import sys; print(sys.argv); sys.exit(int(sys.argv[-1]))"),
        options=("0",),
        environment={"PATH": entries.PATH, "HOME": "/root"},
        directory="/",
        log=str(tmp_path / "logs" / "toy.log"),
    )


def keep(entry: Entry) -> Path:
    with entries.saving(entry):
        pass
    return entries.file_of(entry.name)


def test_the_crontab_gets_one_block_and_loses_no_other_line(entry: Entry) -> None:
    text = table.with_entry(TABLE, entry)
    assert text.startswith(TABLE)
    assert table.with_entry(text, entry) == text
    moved = table.with_entry(text, replace(entry, at="30 5 * * 1"))
    assert "0 4 * * *" not in moved and "30 5 * * 1" in moved
    other = table.with_entry(text, replace(entry, name="toy-2"))
    assert table.without(other, "toy") == table.with_entry(TABLE, replace(entry, name="toy-2"))
    assert table.without(text, "toy") == TABLE
    assert table.without(table.with_entry("", entry), "toy") == ""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for crontab(1) over a file; it refuses a line of REFUSE."""
    kept = tmp_path / "table"
    kept.write_text(TABLE, encoding="utf-8")
    program = tmp_path / "crontab"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -l ] && exec cat {kept}\n[ "$1" = - ] || exit 1\n'
        f"cat >{kept}.new\n"
        f"if grep -q ^REFUSE {kept}.new; then echo bad minute >&2; exit 1; fi\n"
        f"mv {kept}.new {kept}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return kept


def test_a_damaged_entry_hides_no_other_and_can_be_removed(entry: Entry, program: Path) -> None:
    keep(entry)
    entries.file_of("bad").write_text("{", encoding="utf-8")
    assert [one.name for one in entries.entries()] == ["toy"]
    assert [str(entries.file_of("bad")) in error.what for error in entries.damaged()] == [True]
    program.write_text(table.with_entry(TABLE, replace(entry, name="bad")), encoding="utf-8")
    crontab.remove("bad")
    assert program.read_text("utf-8") == TABLE
    assert not entries.file_of("bad").exists() and not list(entries.damaged())
    with pytest.raises(UsageError, match="nothing is scheduled as bad"):
        crontab.remove("bad")


def test_adding_writes_the_table_and_the_entry(entry: Entry, program: Path) -> None:
    crontab.add(entry)
    assert program.read_text("utf-8") == table.with_entry(TABLE, entry)
    assert entries.load(entries.file_of("toy")) == entry


def test_a_table_that_cron_refuses_leaves_everything_as_it_was(entry: Entry, program: Path) -> None:
    crontab.add(entry)
    before = program.read_text("utf-8")
    with pytest.raises(DeployError, match="the crontab was refused") as refused:
        crontab.add(replace(entry, at="REFUSE"))
    assert "bad minute" in refused.value.why
    assert program.read_text("utf-8") == before
    assert entries.load(entries.file_of("toy")) == entry
    assert [p.suffix for p in entries.folder().iterdir() if p.name != ".lock"] == [".json"]


def test_an_entry_that_cannot_be_kept_leaves_the_table(
    entry: Entry, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DeployError, match="nothing is scheduled") as failed:
        crontab.add(entry)
    assert "No space left" in failed.value.why
    assert program.read_text("utf-8") == TABLE
    assert not list(entries.folder().glob("*.tmp"))


def test_a_folder_that_is_no_folder(entry: Entry, program: Path) -> None:
    entries.folder().parent.mkdir(parents=True)
    entries.folder().write_text("", encoding="utf-8")
    with pytest.raises(DeployError, match="nothing is scheduled"):
        crontab.add(entry)
    assert program.read_text("utf-8") == TABLE


def test_a_crontab_program_that_takes_a_table_and_keeps_none(entry: Entry, program: Path) -> None:
    (program.parent / "crontab").write_text(f'#!/bin/sh\n[ "$1" = -l ] && cat {program}\nexit 0\n')
    with pytest.raises(DeployError, match="does not hold the new line"):
        crontab.add(entry)
    assert not list(entries.entries())


def test_who_may_not_use_cron(entry: Entry, program: Path) -> None:
    (program.parent / "crontab").write_text(
        "#!/bin/sh\necho 'You (me) are not allowed to use this program (crontab)' >&2\nexit 1\n"
    )
    with pytest.raises(DeployError, match="cannot be read") as refused:
        crontab.add(entry)
    assert "not allowed" in refused.value.why
    assert not list(entries.entries())


@pytest.mark.parametrize("gone", [{"command": ("/no/such/python",)}, {"directory": "/no/such"}])
def test_one_that_cannot_be_started_says_why(entry: Entry, gone: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="cannot be started") as refused:
        scheduled_run.carry_out(replace(entry, **gone))  # type: ignore[arg-type]
    assert "schedule it again" in refused.value.next


def test_the_line_survives_cron(entry: Entry) -> None:
    line = table.line(entry)
    assert "50\\% config" in line, "a bare percent sign is a line's end for cron"
    assert len(line) < 900


def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    assert entries.load(keep(entry)) == entry
    assert [one.name for one in entries.entries()] == ["toy"]
    with pytest.raises(UsageError, match="nothing is scheduled as other"):
        entries.load(entries.file_of("other"))


@pytest.mark.parametrize(("code", "silent"), [(0, True), (5, True), (10, False), (130, False)])
def test_only_what_is_wrong_is_told(entry: Entry, code: int, silent: bool) -> None:
    got, words = scheduled_run.carry_out(replace(entry, options=(str(code),)))
    assert got == code
    assert (words == "") is silent
    assert "nightly" in Path(entry.log).read_text("utf-8")


def test_logs_are_turned_over_and_few(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for number in range(9):
        log.write_text(f"{number}" * 20, encoding="utf-8")
        scheduled_run.turn_over(log, limit=10, kept=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.log.1", "x.log.2", "x.log.3"]
    assert (tmp_path / "x.log.1").read_text("utf-8")[0] == "8"


def test_secrets_come_from_a_file_that_nobody_else_reads(entry: Entry, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("# mine\nHF_TOKEN=a=b\nexport KEY=c\n", encoding="utf-8")
    secrets.chmod(0o600)
    with_file = replace(entry, secrets_file=str(secrets))
    assert scheduled_run.secrets(with_file) == {"HF_TOKEN": "a=b", "KEY": "c"}
    secrets.write_bytes(b"KEY=\xff\n")
    with pytest.raises(UsageError, match="cannot be read"):
        scheduled_run.secrets(with_file)
    secrets.write_text("KEY=c\n", encoding="utf-8")
    secrets.chmod(0o640)
    with pytest.raises(UsageError, match="others may read"):
        scheduled_run.secrets(with_file)


def test_secrets_of_another_owner_are_refused(entry: Entry, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("LD_PRELOAD=/evil\n", encoding="utf-8")
    secrets.chmod(0o600)
    os.chown(secrets, 54321, 54321)
    with pytest.raises(UsageError, match="belongs to another user"):
        scheduled_run.secrets(replace(entry, secrets_file=str(secrets)))


def test_what_cron_would_miss_is_found(entry: Entry) -> None:
    profile = Profile.model_validate(
        {
            "name": "toy",
            "hosts": [
                {"name": "far", "ssh": {"address": "h", "identity_file": "keys/id"}},
                {"name": "near", "ssh": {"address": "h", "identity_file": "~/.ssh/id"}},
            ],
            "model": {"path": "/m", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123, "api_key": {"env": "TOY_KEY"}},
        }
    )
    hook = {"run": ["no-such-program"]}
    playbook = Playbook.model_validate(
        {"name": "p", "steps": [{"step": "clean", "before": [hook]}]}
    )
    found = list(schedule_check.static(entry, profile, playbook, entry.environment))
    assert [(one.check, one.verdict) for one in found] == [
        ("paths", "failed"),
        ("secrets", "failed"),
        ("hooks", "failed"),
    ]
    assert found[0].next == f"write it absolute: {Path('keys/id').absolute()}"
    assert "TOY_KEY" in found[1].say
    environ = {**entry.environment, "TOY_KEY": "k"}
    assert [c.verdict for c in schedule_check.static(entry, profile, playbook, environ)][1] == "ok"


def test_the_stated_environment_has_no_agent_and_a_whole_path() -> None:
    stated = entries.stated_environment({"SSH_AUTH_SOCK": "/x", "XDG_STATE_HOME": "/s"})
    assert "SSH_AUTH_SOCK" not in stated and stated["XDG_STATE_HOME"] == "/s"
    assert "/usr/sbin" in stated["PATH"].split(os.pathsep)


def test_lines_after_an_entry_whose_end_was_removed_stay(entry: Entry) -> None:
    begin, line, _ = table.with_entry("", entry).splitlines()
    for damaged in (f"{begin}\n{line}\n{TABLE}", f"{begin}\n{TABLE}", f"{TABLE}{begin}\n"):
        assert table.without(damaged, "toy") == TABLE


def test_a_name_that_no_file_can_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="is not an entry name"):
        entries.load(entries.file_of("x" * 5000))


def test_runs_that_are_skipped_again_and_again_are_reported(entry: Entry) -> None:
    skipped = replace(entry, options=("5",))
    said = [scheduled_run.carry_out(skipped) for _ in range(4)]
    assert [code for code, _ in said] == [5, 5, 5, 5]
    assert [bool(words) for _, words in said] == [False, False, True, True]
    assert "skipped 3 times in a row, another run holds the lock" in said[2][1]
    assert scheduled_run.carry_out(entry) == (0, "")
    assert scheduled_run.carry_out(skipped) == (5, "")


def test_how_the_cron_daemon_is_started(tmp_path: Path) -> None:
    assert schedule_check.daemon(tmp_path).next == "start it: service cron start"
    (tmp_path / "systemd" / "system").mkdir(parents=True)
    assert schedule_check.daemon(tmp_path).next == "start it: systemctl start cron"
    (tmp_path / "cron.pid").write_text(f"{os.getpid()}\n")
    assert schedule_check.daemon(tmp_path).verdict == "ok"
