"""Jobs that are stopped, or whose supervisor is: nothing of them is left, and it is told."""

from __future__ import annotations

import json
import os
import signal

import pytest

from deployctl.agent.processes import processes
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.waiting import until
from tests.hosts.test_jobs import gone, shell


def test_supervisor_killed_is_lost_and_leftovers_end(builder: BuildHost) -> None:
    call = builder.session.call
    begun = call("jobs.start", id="lost", steps=[shell("setsid sleep 300 & sleep 300")])
    until(lambda: len(call("jobs.state", id="lost")["members"]) >= 4)
    os.kill(begun["pid"], signal.SIGKILL)
    # A process that was killed may be there for a moment after its lock has fallen.
    until(lambda: call("jobs.state", id="lost")["state"] == "lost")
    state = until(lambda: s if len((s := call("jobs.state", id="lost"))["members"]) == 3 else None)
    assert state["state"] == "lost"
    # Starting it anew ends what the lost run left behind before anything else.
    call("jobs.start", id="lost", steps=[shell("echo again")])
    assert call("jobs.follow", id="lost")["state"] == "done"
    assert all(gone(pid) for pid in state["members"])


@pytest.mark.parametrize("how", ["plain", "stubborn", "own session"])
def test_stop_leaves_nothing(builder: BuildHost, how: str) -> None:
    text = {
        "plain": "sleep 300 & sleep 300",
        "stubborn": "trap '' TERM; sleep 300 & while :; do sleep 300; done",
        "own session": "setsid sleep 300 & setsid sleep 300 & wait",
    }[how]
    call = builder.session.call
    call("jobs.start", id="stop", steps=[shell(text)])
    members = until(
        lambda: (
            m
            if len(m := call("jobs.state", id="stop")["members"]) >= 4
            or (how == "stubborn" and len(m) >= 3)
            else None
        )
    )
    final = call("jobs.stop", id="stop", grace=0.3)
    assert (final["state"], final["members"]) == ("stopped", [])
    assert all(gone(pid) for pid in members)
    token = json.loads((builder.root / "jobs/stop/job.json").read_text())["token"]
    assert processes.members(f"DEPLOYCTL_JOB={token}") == []


def test_a_supervisor_that_is_stuck_is_ended_and_the_job_told_as_stopped(
    builder: BuildHost,
) -> None:
    call = builder.session.call
    begun = call("jobs.start", id="stuck", steps=[shell("until [ -e go ]; do sleep 0.05; done")])
    until(lambda: call("jobs.state", id="stuck")["phase"] == "work")
    os.kill(begun["pid"], signal.SIGSTOP)
    (builder.root / "go").touch()
    until(lambda: call("jobs.state", id="stuck")["members"] == [begun["pid"]])
    final = call("jobs.stop", id="stuck", grace=0.1)
    assert (final["state"], final["members"]) == ("stopped", [])
