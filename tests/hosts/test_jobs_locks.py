"""Steps that share a lock: one at a time, however the one that holds it ends."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from typing import Any

from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.waiting import until
from tests.hosts.test_jobs import gone

LOCK = "@/builds/dependencies.lock"
AT_WORK = "exec 9>work; flock 9; touch working"
"""Shell words that hold a lock for as long as a process lives that they were spoken in."""
NOBODY_AT_WORK = "flock -n work true"


def locked(text: str) -> list[dict[str, Any]]:
    return [{"phase": "work", "argv": ["sh", "-c", text], "lock": LOCK}]


def hold(builder: BuildHost, id: str = "holder", text: str = "sleep 300") -> dict[str, Any]:
    """A job whose step has the lock."""
    builder.session.call("jobs.start", id=id, steps=locked(text))
    return until(lambda: s if (s := state(builder, id))["phase"] == "work" else None)


def wait(builder: BuildHost, id: str = "waiter", text: str = "true", **more: Any) -> None:
    """A job whose step does not have it."""
    builder.session.call("jobs.start", id=id, steps=locked(text), **more)
    until(lambda: state(builder, id)["phase"] == "waiting")


def state(builder: BuildHost, id: str) -> dict[str, Any]:
    found: dict[str, Any] = builder.session.call("jobs.state", id=id)
    return found


def free(builder: BuildHost) -> bool:
    with (builder.root / LOCK[2:]).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_steps_with_one_lock_never_overlap(builder: BuildHost) -> None:
    call = builder.session.call
    # A directory can be made only by one: a step that met another's would end with a status.
    alone = "mkdir alone && sleep 0.4 && rmdir alone"
    names = ["a", "b", "c"]
    hold(builder)
    for name in names:
        call("jobs.start", id=name, steps=[*locked(alone), *locked(alone)])
        until(lambda name=name: state(builder, name)["phase"] == "waiting")  # type: ignore[misc]
    began = time.monotonic()
    call("jobs.stop", id="holder")
    finals = [call("jobs.follow", id=name) for name in names]
    assert [final["state"] for final in finals] == ["done"] * 3
    # The time that a step waits is not its own: together they take no longer than it took.
    seconds = [step["seconds"] for final in finals for step in final["steps"]]
    assert 6 * 0.4 <= sum(seconds) <= time.monotonic() - began
    logs = [call("jobs.log", id=name)["text"] for name in names]
    waited = f"waiting for {builder.root}/{LOCK[2:]}, which another job holds\n"
    assert all(waited in log for log in logs)


def test_other_steps_do_not_wait(builder: BuildHost) -> None:
    hold(builder)
    plain = [{"phase": "work", "argv": ["true"]}, {**locked("true")[0], "lock": "@/other.lock"}]
    builder.session.call("jobs.start", id="plain", steps=plain)
    assert builder.session.call("jobs.follow", id="plain")["state"] == "done"


def test_waiting_is_said_once_and_is_no_stall(builder: BuildHost) -> None:
    hold(builder)
    wait(builder, stall=2.0)
    began = time.time()
    beat = builder.root / "jobs/waiter/heartbeat"
    # It works on for longer than a silent step is given.
    until(lambda: float(beat.read_text() or 0) > began + 5)
    assert state(builder, "waiter")["state"] == "running"
    builder.session.call("jobs.stop", id="holder")
    assert builder.session.call("jobs.follow", id="waiter")["state"] == "done"
    assert builder.session.call("jobs.log", id="waiter")["text"].count("waiting for") == 1


def test_stop_and_limit_work_while_it_waits(builder: BuildHost) -> None:
    call = builder.session.call
    holder = hold(builder)
    wait(builder, text="touch never")
    final = call("jobs.stop", id="waiter")
    assert (final["state"], final["phase"], final["members"]) == ("stopped", "waiting", [])
    # It heard that, and told its end itself.
    assert "ended" in json.loads((builder.root / "jobs/waiter/state.json").read_text())
    wait(builder, "limited", "touch never", limit=1.0)
    final = call("jobs.follow", id="limited")
    assert final["state"] == "stalled" and "limit of 1 s" in final["why"]
    assert not (builder.root / "never").exists()
    assert state(builder, "holder")["pid"] == holder["pid"] and not free(builder)


def test_a_killed_holder_frees_it_and_its_orphans_do_not_keep_it(builder: BuildHost) -> None:
    holder = hold(builder, text="setsid sleep 300 & sleep 300")
    members = until(lambda: m if len(m := state(builder, "holder")["members"]) >= 4 else None)
    wait(builder)
    os.kill(holder["pid"], signal.SIGKILL)
    assert builder.session.call("jobs.follow", id="waiter")["state"] == "done"
    assert not any(gone(pid) for pid in members if pid != holder["pid"])


def test_a_stopped_holder_keeps_it_until_its_processes_are_gone(builder: BuildHost) -> None:
    # What was asked to end still works for a while.
    hold(builder, text=f"trap '' TERM; {AT_WORK}; while :; do sleep 300; done")
    until((builder.root / "working").exists)
    wait(builder, text=NOBODY_AT_WORK)
    builder.session.call("jobs.stop", id="holder", grace=0.5)
    assert builder.session.call("jobs.follow", id="waiter")["state"] == "done"


def test_a_failed_step_leaves_nobody_at_work_without_the_lock(builder: BuildHost) -> None:
    begun = "until [ -e working ]; do sleep 0.05; done"
    text = f"(trap '' TERM; {AT_WORK}; sleep 1) & {begun}; exit 3"
    steps = [{**locked(text)[0], "optional": True}, *locked(NOBODY_AT_WORK)]
    builder.session.call("jobs.start", id="twice", steps=steps)
    final = builder.session.call("jobs.follow", id="twice")
    assert (final["state"], [s["rc"] for s in final["steps"]]) == ("done", [3, 0])
    assert free(builder)
