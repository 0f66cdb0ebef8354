"""A supervised server that accepts and never answers is found and restarted by its supervisor."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deployctl.hosts.session import Session
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.processes import is_alive
from tests.hosts.test_units import HOME, UNIT, local, state, until

SERVER = str(Path(__file__).parent / "served" / "vllm_stand_in.py")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local(tmp_path) as session:
        yield session
        session.call("units.stop", **UNIT, grace=1)


def start(session: Session, hangs: Path, completion: float = 5.0, **more: Any) -> dict[str, Any]:
    """A stand-in for a server of models that hangs while there is this file; once it is proven. It
    has time to answer on a machine that is busy with other tests."""
    port = free_port()
    address = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny"]
    url = f"http://127.0.0.1:{port}"
    liveness = {"interval": 0.1, "completion": completion, "failures": 2, "model": "tiny"}
    session.call(
        "units.start",
        **UNIT,
        argv=[sys.executable, SERVER, "serve", "model", *address],
        env={"STAND_IN_HANGS": str(hangs), "STAND_IN_START": "0"},
        release="r1",
        supervisor="agent",
        grace=2,
        liveness={**liveness, "url": url},
        **more,
    )
    until("it listens", lambda: session.call("network.listener", port=port)["listening"])
    found = state(session)
    session.call("units.keep", **UNIT, pid=found["pid"], start=found["start"])
    until("it is alive", lambda: verdict(session) == "alive")
    return found


def verdict(session: Session) -> str | None:
    last = (state(session).get("liveness") or {}).get("last") or {}
    return last.get("verdict")


def restarted(session: Session) -> dict[str, Any]:
    def again() -> dict[str, Any] | None:
        found = state(session)
        alive = found["restarts"] == 1 and verdict(session) == "alive"
        return found if alive and found["state"] == "running" else None

    found: dict[str, Any] = until("it was restarted and lives", again)
    return found


def test_a_server_that_never_answers_is_killed_and_restarted(
    session: Session, tmp_path: Path
) -> None:
    hangs = tmp_path / "hangs"
    first = start(session, hangs, secrets={"VLLM_API_KEY": "hush-hush"})
    hangs.touch()
    until("it was found", lambda: state(session)["restarts"] == 1)
    hangs.unlink()
    second = restarted(session)
    assert second["pid"] != first["pid"] and not is_alive(first["pid"])
    assert (second["rc"], second["kept"]) == (-signal.SIGKILL, True)
    assert (second["liveness"]["restarts"], second["liveness"]["failures"]) == (1, 0)
    log = session.call("units.log", **UNIT)["text"]
    assert "it hangs and is killed: no completion: no complete answer within 5 s, 2 times" in log
    record = (tmp_path / HOME / "record.json").read_text()
    assert json.loads(record)["liveness"]["restarts"] == 1
    assert "hush-hush" not in record + log


def test_a_stopped_server_is_killed_with_its_family(session: Session, tmp_path: Path) -> None:
    first = start(session, tmp_path / "hangs")
    os.kill(first["pid"], signal.SIGSTOP)
    second = restarted(session)
    assert second["pid"] != first["pid"] and not is_alive(first["pid"])


def test_a_request_that_hangs_does_not_hold_up_a_stop(session: Session, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    start(session, hangs, completion=300.0)
    hangs.touch()
    port = dict(pairwise(state(session)["argv"]))["--port"]

    def waits() -> bool:
        found = session.call("network.http", method="GET", url=f"http://127.0.0.1:{port}/metrics")
        return 'num_requests_running{engine="0",model_name="tiny"} 1' in found["body"]

    until("a look of the watch hangs", waits)
    began = time.monotonic()
    assert session.call("units.stop", **UNIT, grace=1)["state"] == "stopped"
    assert time.monotonic() - began < 100


def test_without_it_a_server_is_not_watched(session: Session) -> None:
    session.call(
        "units.start", **UNIT, argv=["sleep", "60"], release="r", supervisor="agent", grace=1
    )
    assert state(session)["liveness"] is None
