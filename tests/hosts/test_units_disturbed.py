"""Supervised servers whose start is given up, whose journal is gone, whose pid is a stranger's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.supervision.base import identity
from deployctl.errors import RemoteError
from deployctl.hosts.bundle import bundle
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from tests.hosts.builds.waiting import until
from tests.hosts.lab.processes import is_alive

NAME = "toy"
UNIT = {"profile": NAME, "unit": "server"}
HOME = f"profiles/{NAME}/units/server/server"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(LocalTransport("local"), root=str(tmp_path)) as session:
        yield session
        session.call("units.stop", **UNIT, grace=1)


def words(text: str, **more: Any) -> dict[str, Any]:
    argv = ["sh", "-c", text]
    made = {
        "profile": NAME,
        "unit": "server",
        "argv": argv,
        "release": "r",
        "supervisor": "agent",
        "grace": 1,
    }
    return {**made, **more}


@pytest.mark.parametrize("after", [0.0, 0.03, 0.1])
def test_a_start_that_was_given_up_does_not_come_up_after_the_stop(
    session: Session, after: float
) -> None:
    starting = session.stream("units.start", **words("exec sleep 60"))
    time.sleep(after)
    starting.cancel()
    session.call("units.stop", **UNIT, grace=1)
    while starting.next() is not None:
        pass
    assert session.call("units.state", **UNIT)["state"] in (
        "stopped",
        "absent",
    )
    time.sleep(1)
    assert session.call("units.state", **UNIT)["members"] == []


def test_a_log_that_cannot_be_written_is_the_cause(session: Session) -> None:
    begun = session.call("units.start", **words("exec sleep 60", log="@/none/server.log"))
    assert begun["state"] == "failed" and "none/server.log" in begun["error"]


def test_last_words_without_a_line_end(session: Session, tmp_path: Path) -> None:
    stay = f"until [ -e {tmp_path}/heard ]; do sleep 0.05; done"
    session.call("units.start", **words(f"printf 'one\\ntwo'; {stay}"))
    until(lambda: session.call("units.log", **UNIT)["text"] == "one\n")
    (tmp_path / "heard").touch()
    until(lambda: session.call("units.state", **UNIT)["state"] == "exited")
    assert session.call("units.log", **UNIT, offset=4)["text"] == "two"


def test_children_begun_while_it_ends_end_too(session: Session) -> None:
    stubborn = "trap 'sleep 61 & sleep 62 &' TERM; while :; do sleep 0.1; done"
    session.call("units.start", **words(f"{stubborn} & wait"))
    assert session.call("units.stop", **UNIT, grace=1)["left"] == []


def test_a_number_given_anew_hides_no_worker(session: Session, tmp_path: Path) -> None:
    session.call("units.start", **words("setsid sleep 60 & exec sleep 61"))
    record = tmp_path / HOME / "record.json"
    until(lambda: len(session.call("units.state", **UNIT)["members"]) == 2)
    noted = json.loads(record.read_text())
    for pid in (noted["supervisor"]["pid"], noted["pid"]):
        os.kill(pid, 9)
    until(lambda: not is_alive(noted["supervisor"]["pid"]) and not is_alive(noted["pid"]))
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        record.write_text(json.dumps({**noted, "pid": stranger.pid}))

        def left() -> list[str]:
            members = session.call("units.state", **UNIT)["members"]
            assert stranger.pid not in [member["pid"] for member in members]
            return [member["command"] for member in members]

        until(lambda: left() == ["sleep 60"])
        with pytest.raises(RemoteError, match="runs already"):
            session.call("units.start", **words("true"))
        assert session.call("units.stop", **UNIT, grace=1)["left"] == []
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("journal", ["gone", "still"])
def test_a_journal_that_takes_nothing_takes_no_server_down(
    session: Session, tmp_path: Path, journal: str
) -> None:
    folder = tmp_path / HOME
    folder.mkdir(parents=True)
    spec = {
        "argv": ["sh", "-c", "while :; do seq 10000; sleep 0.1; done"],
        "serial": f"{time.time_ns()}-{os.getpid()}",
        "kind": "systemd",
        "env": dict(os.environ),
        "cwd": "/",
        "grace": 1,
        "log": str(folder / "server.log"),
        "release": "r",
        "limits": {"restarts": 5, "window": 900, "log": 1 << 20},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(bundle().data)
    command = [sys.executable, str(archive), "server", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        if journal == "gone":
            supervisor.stdout.close()
        turned = folder / "server.log.1"
        until(turned.exists)
        assert supervisor.poll() is None
        supervisor.terminate()
        assert supervisor.wait(60) == 0
    assert session.call("units.state", **UNIT)["state"] == "stopped"


def test_an_end_that_has_just_come_is_told_with_its_status(
    session: Session, tmp_path: Path
) -> None:
    pid = session.call("units.start", **words("exec sleep 60"))["pid"]
    record = json.loads((tmp_path / HOME / "record.json").read_text())
    supervisor = record["supervisor"]["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid))
    asked = session.stream("units.state", **UNIT)
    time.sleep(0.3)
    os.kill(supervisor, signal.SIGCONT)
    found = asked.result()
    assert (found["state"], found["rc"]) == ("failed", -signal.SIGKILL)


def test_it_starts_though_the_supervisor_of_before_is_still_on_its_way_out(
    session: Session, tmp_path: Path
) -> None:
    session.call("units.start", **words("exit 3"))
    until(lambda: not session.call("units.state", **UNIT)["supervised"])
    folder = tmp_path / HOME
    slow = f"exec 9>{folder}/supervisor.lock; flock 9; echo; exec sleep 60"
    with subprocess.Popen(["sh", "-c", slow], stdout=subprocess.PIPE) as leaving:
        assert leaving.stdout is not None and leaving.stdout.readline()
        record = json.loads((folder / "record.json").read_text())
        record["supervisor"] = identity(leaving.pid)
        (folder / "record.json").write_text(json.dumps(record))
        begun = session.call("units.start", **words("exec sleep 60"))
        assert begun["state"] == "running"
