"""Supervised servers as real processes, under the agent's own supervisor."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.host import HostSettings
from deployctl.errors import RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from deployctl.hosts.ways.local import LocalTransport
from tests.hosts.lab.files import contents
from tests.hosts.lab.processes import is_alive, send
from tests.hosts.lab.sshd import Sshd

SERVER = [sys.executable, str(Path(__file__).with_name("server_stand_in.py"))]
NAME = "toy"
UNIT = {"profile": NAME, "unit": "server"}
HOME = f"profiles/{NAME}/units/server/server"


def local(root: Path) -> Session:
    return Session(LocalTransport("local"), root=str(root))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local(tmp_path) as session:
        yield session
        session.call("units.stop", **UNIT, grace=1)


def start(session: Session, *words: str, **more: Any) -> dict[str, Any]:
    more = {"argv": [*SERVER, *words], "release": "r1", "supervisor": "agent", "grace": 2, **more}
    state: dict[str, Any] = session.call("units.start", **UNIT, **more)
    return state


def state(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = session.call("units.state", **UNIT)
    return found


def until(what: str, holds: Callable[[], Any], seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def test_what_never_started_is_absent(session: Session) -> None:
    assert state(session)["state"] == "absent"
    assert session.call("units.stop", **UNIT)["state"] == "absent"


def test_a_server_runs_and_is_stopped_whole(session: Session) -> None:
    before = time.time()
    started = start(session, "leave-orphan")
    assert (started["state"], started["release"], started["kind"]) == ("running", "r1", "agent")
    assert started["supervised"] and not started["kept"]
    members = until("its orphan", lambda: m if len(m := state(session)["members"]) >= 2 else None)
    assert started["pid"] in [m["pid"] for m in members]
    assert before - 1 < started["started"] < time.time() + 1
    stopped = session.call("units.stop", **UNIT, grace=2)
    assert stopped["state"] == "stopped" and stopped["left"] == []
    assert not any(is_alive(m["pid"]) for m in members)


def test_a_child_in_a_session_of_its_own_is_found_and_stopped_too(session: Session) -> None:
    pid = start(session, "escape")["pid"]
    others = until(
        "the child that escaped",
        lambda: [m for m in state(session)["members"] if m["session"] != pid],
    )
    assert session.call("units.stop", **UNIT, grace=2)["state"] == "stopped"
    assert not any(is_alive(m["pid"]) for m in others)


def test_a_log_that_was_removed_does_not_end_supervision(session: Session, tmp_path: Path) -> None:
    start(session)
    (tmp_path / HOME / "server.log").unlink()
    # Twice as long as the supervisor's own pace.
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert state(session)["supervised"]


def test_it_outlives_the_session_that_started_it(tmp_path: Path) -> None:
    with local(tmp_path) as first:
        pid = start(first)["pid"]
    with local(tmp_path) as second:
        found = state(second)
        assert (found["state"], found["pid"], found["supervised"]) == ("running", pid, True)
        second.call("units.stop", **UNIT)


def test_it_outlives_a_cut_ssh_session(sshd: Sshd, tmp_path: Path) -> None:
    settings = HostSettings(**sshd.host_settings("far"))
    first = Session(transport(settings), root=str(tmp_path))
    pid = start(first)["pid"]
    for served in sshd.sessions():
        send(served, signal.SIGKILL)
    first.close()
    with Session(transport(settings), root=str(tmp_path)) as second:
        found = state(second)
        assert (found["state"], found["pid"], found["supervised"]) == ("running", pid, True)
        second.call("units.stop", **UNIT)


def test_sigterm_is_followed_by_sigkill(session: Session) -> None:
    pid = start(session, "ignore-term", grace=0.5)["pid"]
    until("its first words", lambda: session.call("units.log", **UNIT)["text"])
    began = time.monotonic()
    assert session.call("units.stop", **UNIT, grace=0.5)["state"] == "stopped"
    # A supervisor that is stuck would be given half a minute.
    assert 0.5 <= time.monotonic() - began < 20
    assert not is_alive(pid)


@pytest.mark.parametrize(("status", "word"), [(0, "exited"), (3, "failed")])
def test_an_end_that_nobody_asked_for_is_a_failure(
    session: Session, status: int, word: str
) -> None:
    start(session, "seconds=0.1", f"exit={status}", "leave-orphan")
    found = until("its end", lambda: s if (s := state(session))["state"] == word else None)
    assert (found["rc"], found["restarts"]) == (status, 0)
    until("nobody left", lambda: not state(session)["members"])


def test_a_program_that_is_not_there(session: Session) -> None:
    found = start(session, argv=["/nonexistent/vllm", "serve"])
    assert found["state"] == "failed"
    assert "/nonexistent/vllm" in found["error"]


def test_killing_the_main_process_is_noticed_and_leaves_no_orphans(session: Session) -> None:
    pid = start(session, "leave-orphan")["pid"]
    members = until("its orphan", lambda: m if len(m := state(session)["members"]) >= 2 else None)
    os.kill(pid, signal.SIGKILL)
    found = until("the failure", lambda: s if (s := state(session))["state"] == "failed" else None)
    assert found["rc"] == -signal.SIGKILL
    until("nobody left", lambda: not state(session)["members"])
    assert not any(is_alive(m["pid"]) for m in members)


def test_only_what_was_proven_is_restarted(session: Session) -> None:
    first = start(session)
    session.call("units.keep", **UNIT)
    os.kill(first["pid"], signal.SIGKILL)

    def again() -> dict[str, Any] | None:
        found = state(session)
        return found if found["state"] == "running" and found["restarts"] == 1 else None

    second = until("the restart", again)
    assert second["pid"] != first["pid"] and second["kept"]


def test_restarts_have_a_limit(session: Session, tmp_path: Path) -> None:
    limits = {"restarts": 1, "window": 600}
    start(session, f"gate={tmp_path}/kept", "seconds=0", "exit=0", limits=limits)
    session.call("units.keep", **UNIT)
    (tmp_path / "kept").touch()
    # Between two runs it has exited as well; whoever gave up supervises nothing.
    found = until("giving up", lambda: s if not (s := state(session))["supervised"] else None)
    assert found["state"] == "exited"
    assert found["restarts"] == 1


def test_a_killed_supervisor_is_seen_and_the_server_still_stopped(
    session: Session, tmp_path: Path
) -> None:
    pid = start(session, "leave-orphan")["pid"]
    record = json.loads((tmp_path / HOME / "record.json").read_text())
    os.kill(record["supervisor"]["pid"], signal.SIGKILL)
    until("nobody to supervise", lambda: not state(session)["supervised"])
    assert state(session)["state"] == "running"
    assert session.call("units.stop", **UNIT, grace=1)["state"] == "stopped"
    assert not is_alive(pid) and state(session)["members"] == []


def test_a_server_that_is_gone_with_its_supervisor_is_lost(
    session: Session, tmp_path: Path
) -> None:
    pid = start(session)["pid"]
    record = json.loads((tmp_path / HOME / "record.json").read_text())
    os.kill(record["supervisor"]["pid"], signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    until("it is lost", lambda: state(session)["state"] == "lost")


def test_a_second_start_is_refused(session: Session) -> None:
    pid = start(session)["pid"]
    with pytest.raises(RemoteError) as refused:
        start(session, release="r2")
    assert refused.value.kind == "running"
    assert state(session)["pid"] == pid and state(session)["release"] == "r1"


def test_secrets_arrive_and_show_nowhere(session: Session, tmp_path: Path) -> None:
    start(session, secrets={"SECRET": "hush-hush"})
    until(
        "its first words",
        lambda: "secret True" in session.call("units.log", **UNIT)["text"],
    )
    folder = tmp_path / HOME
    assert stat.S_IMODE((folder / "secrets.json").stat().st_mode) == 0o600
    shown = [path for path, data in contents(folder) if b"hush-hush" in data]
    assert shown == [folder / "secrets.json"]
    assert "hush-hush" not in json.dumps(state(session))
    pid = state(session)["pid"]
    assert b"hush-hush" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    session.call("units.stop", **UNIT)
    start(session)
    assert not (folder / "secrets.json").exists()


def test_the_server_may_write_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with local(tmp_path) as session:
        start(session)
        said = until("its words", lambda: t if "bytecode" in (t := log_text(session)) else None)
        assert "bytecode True" in said
        session.call("units.stop", **UNIT)


def test_whoever_launches_the_environment_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    monkeypatch.setenv("MY_OWN_PASSWORD", "hush-hush")
    with local(tmp_path) as session:
        pid = start(session, env={"VLLM_NO_USAGE_STATS": "1"})["pid"]
        # While a process becomes another program it has none.
        environment = until("its environment", Path(f"/proc/{pid}/environ").read_bytes)
        names = {entry.partition(b"=")[0] for entry in environment.split(b"\0")}
        assert {b"HOME", b"PATH", b"VLLM_NO_USAGE_STATS"} <= names
        assert not names & {b"VLLM_USE_V2_MODEL_RUNNER", b"MY_OWN_PASSWORD"}
        session.call("units.stop", **UNIT)


def log_text(session: Session) -> str:
    return str(session.call("units.log", **UNIT)["text"])


def test_the_log_is_read_in_whole_lines_from_anywhere(session: Session) -> None:
    start(session, "say=100")
    until("its last line", lambda: "line 99\n" in log_text(session))
    text, offset = "", 0
    while part := session.call("units.log", **UNIT, offset=offset, limit=64):
        assert part["text"].endswith("\n") or not part["text"]
        if not part["text"]:
            break
        text, offset = text + part["text"], part["offset"]
    assert text == log_text(session)
    assert session.call("units.log", **UNIT, offset=-8)["text"] == "line 99\n"


def test_a_long_log_is_turned_over(session: Session, tmp_path: Path) -> None:
    start(session, f"gate={tmp_path}/go", "say=500", limits={"log": 1000})
    folder = tmp_path / HOME
    log = folder / "server.log"
    supervisor = json.loads((folder / "record.json").read_text())["supervisor"]["pid"]
    # All of it lies there before the supervisor looks: it is turned over once.
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "go").touch()
    until("its last line", lambda: log.read_text().endswith("line 499\n"))
    os.kill(supervisor, signal.SIGCONT)
    until("the older part", Path(f"{log}.1").exists)
    until("a short one", lambda: log.stat().st_size < 1000)
    assert "line 0\n" in Path(f"{log}.1").read_text()
    part = session.call("units.log", **UNIT, offset=3000)
    assert part["turned"]


def test_names_are_names(session: Session) -> None:
    with pytest.raises(RemoteError) as refused:
        session.call("units.state", profile="../etc", unit="server")
    assert refused.value.kind == "bad-name"
