"""Disks that are full: what was there stays, what ends says so, and nothing is forgotten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployctl import bugs
from deployctl.engine.schedule import entries, scheduled_run
from deployctl.engine.schedule.entries import Entry
from deployctl.errors import DeployError, HostError, RemoteError
from deployctl.hosts.bundle import bundle
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from tests.hosts.builds.waiting import until
from tests.hosts.full_disk import fill, read_only, small_disk
from tests.hosts.lab.processes import is_alive

TOY = {"profile": "toy", "unit": "server"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def session(disk: Path) -> Iterator[Session]:
    with Session(LocalTransport("local"), root=str(disk)) as session:
        yield session


def test_a_ledger_entry_that_was_cut_off_is_no_entry(session: Session, disk: Path) -> None:
    session.call("releases.record", profile="p", entry={"kind": "first"})
    filling = fill(disk)
    with pytest.raises(RemoteError, match="No space left"):
        session.call("releases.record", profile="p", entry={"kind": "second", "text": "x" * 9000})
    filling.unlink()
    session.call("releases.record", profile="p", entry={"kind": "third"})
    kinds = [entry["kind"] for entry in session.call("releases.ledger", profile="p")]
    assert kinds == ["first", "damaged", "third"]


def test_the_lock_is_held_though_nobody_can_be_named(session: Session, disk: Path) -> None:
    with Session(LocalTransport("other"), root=str(disk)) as other:
        fill(disk)
        assert session.call("releases.lock", profile="p", holder={"run": "1"}) == {"held": True}
        with pytest.raises(RemoteError) as refused:
            other.call("releases.lock", profile="p", holder={"run": "2"})
        assert (refused.value.kind, refused.value.detail) == ("locked", {"run": "unknown"})


def test_a_job_that_fills_the_disk_tells_its_outcome(session: Session, disk: Path) -> None:
    # Long enough for the supervisor to write that it lives, and to look at the log.
    text = f"dd if=/dev/zero of={disk}/filling bs=64k; sleep 3; exit 3"
    step = {"phase": "work", "argv": ["sh", "-c", text]}
    session.call("jobs.start", id="fills", steps=[step], stall=16)
    final = session.call("jobs.follow", id="fills")
    assert (final["state"], final["rc"]) == ("failed", 3)


def test_a_step_that_begins_on_a_full_disk_is_judged_by_its_own_status(
    session: Session, disk: Path
) -> None:
    texts = [f"dd if=/dev/zero of={disk}/filling bs=64k", "exit 3"]
    steps = [{"phase": "work", "argv": ["sh", "-c", t], "optional": "dd" in t} for t in texts]
    session.call("jobs.start", id="fills", steps=steps, stall=16)
    final = session.call("jobs.follow", id="fills")
    assert (final["state"], final["rc"]) == ("failed", 3)


def test_a_server_is_stopped_and_forgotten_by_nobody(session: Session, disk: Path) -> None:
    words: dict[str, Any] = {"argv": ["sleep", "60"], "release": "r", "supervisor": "agent"}
    begun = session.call("units.start", **TOY, grace=1, **words)
    fill(disk)
    record = json.loads((disk / "profiles/toy/units/server/server/record.json").read_text())
    os.kill(record["supervisor"]["pid"], 9)
    ended = session.call("units.stop", **TOY, grace=1)
    assert (ended["gone"], ended["left"]) == ([begun["pid"]], [])
    assert session.call("units.state", **TOY)["members"] == []


def test_what_could_not_be_recorded_is_found_and_recorded_later(
    session: Session, disk: Path, tmp_path: Path
) -> None:
    folder = disk / "profiles/toy/units/server/server"
    folder.mkdir(parents=True)
    spec = {
        "serial": f"{time.time_ns()}-{os.getpid()}",
        "kind": "agent",
        "argv": ["sleep", "60"],
        "env": {},
        "cwd": "/",
        "log": str(tmp_path / "log"),
        "release": "r",
        "grace": 1,
        "limits": {"restarts": 5, "window": 900, "log": 1 << 20},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "supervisor.lock").touch()
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(bundle().data)
    filling = fill(disk)
    with subprocess.Popen([sys.executable, str(archive), "server", str(folder)]) as supervisor:
        until(lambda: comms(session) == ["sleep"])
        filling.unlink()
        until(lambda: session.call("units.state", **TOY)["state"] == "running")
        assert session.call("units.stop", **TOY, grace=1)["state"] == "stopped"
        assert supervisor.wait(60) == 0


def comms(session: Session) -> list[str]:
    return [member["comm"] for member in session.call("units.state", **TOY)["members"]]


def test_a_server_whose_disk_takes_no_writing_is_stopped(
    session: Session, disk: Path, tmp_path: Path
) -> None:
    words: dict[str, Any] = {"argv": ["sleep", "60"], "release": "r", "supervisor": "agent"}
    begun = session.call("units.start", **TOY, grace=1, **words)
    session.call("jobs.start", id="done", steps=[{"phase": "work", "argv": ["true"]}])
    session.call("jobs.follow", id="done")
    (disk / "profiles/toy/units/server/server/lock").unlink()
    with (
        read_only(disk, tmp_path / "view") as view,
        Session(LocalTransport("local"), root=str(view)) as blind,
    ):
        assert blind.call("jobs.state", id="done")["state"] == "done"
        assert blind.call("units.stop", **TOY, grace=1)["left"] == []
        assert not is_alive(begun["pid"])


def test_nothing_is_scheduled_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry(
        name="nightly",
        at="0 4 * * *",
        profile="/p.yaml",
        playbook="up",
        command=(),
        options=(),
        environment={},
        directory="/",
        log="/l",
    )
    with small_disk(tmp_path / "small") as disk:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(disk))
        with entries.saving(entry):
            pass
        fill(disk)
        longer = replace(entry, at="0 5 * * *" * 9999)
        with pytest.raises(DeployError, match="nothing is scheduled"), entries.saving(longer):
            pytest.fail("it could not be written")
        with pytest.raises(DeployError, match="log of the scheduled run nightly"):
            scheduled_run.carry_out(replace(entry, log=str(disk / "logs/nightly.log")))
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        assert "No space left" in bugs.kept(ValueError("a bug"))
        assert [found.at for found in entries.entries()] == [entry.at]
        kept = [path.name for path in entries.folder().iterdir()]
        assert kept == ["nightly.json"]


def test_an_agent_that_finds_no_room_takes_none(tmp_path: Path) -> None:
    with small_disk(tmp_path / "tiny", "64k") as tiny:
        with pytest.raises(HostError, match="No space left"):
            Session(LocalTransport("local"), root=str(tiny))
        assert list((tiny / "agent").iterdir()) == []
