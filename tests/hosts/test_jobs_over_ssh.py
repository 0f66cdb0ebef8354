"""A job outlives the connection that started it, however that ends, and is never run twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from deployctl.config.host import HostSettings
from deployctl.errors import ConnectionLost
from deployctl.hosts.session import Limits, Session
from deployctl.hosts.transports import transport
from tests.hosts.lab.network import Lab

pytestmark = pytest.mark.lab

# Talks all the while: a process that wrote to the lost connection would end by SIGPIPE.
WORK = """
echo run >>runs
while [ ! -e finish ]; do echo working; sleep 0.05; done
echo finished
"""
STEPS = [{"phase": "build", "argv": ["sh", "-c", WORK]}]
LIMITS = Limits(start=60, ping=0.3, dead=8, silence=60)


def reach(settings: dict[str, Any]) -> Session:
    host = HostSettings(**settings)
    return Session(transport(host), root="/var/lib/deployctl-jobs", limits=LIMITS)


def survives(settings: dict[str, Any], harm: Callable[[], None], heal: Callable[[], None]) -> None:
    first = reach(settings)
    assert first.call("jobs.start", id="build", steps=STEPS)["started"] is True
    following = first.stream("jobs.follow", id="build")
    while "working" not in (following.next() or {}).get("text", ""):
        assert following.failure is None
    harm()
    with pytest.raises(ConnectionLost):
        following.result()
    first.close()
    heal()
    with reach(settings) as second:
        again = second.call("jobs.start", id="build", steps=STEPS)
        assert (again["started"], again["state"]) == (False, "running")
        second.call("files.write", path="@/finish", text="")
        assert second.call("jobs.follow", id="build")["state"] == "done"
        assert second.call("jobs.log", id="build", offset=-9)["text"] == "finished\n"
        assert second.call("files.read", path="@/runs")["text"] == "run\n"
        second.call("files.remove_tree", path="@/jobs")
        second.call("files.remove_tree", path="@/runs")
        second.call("files.remove_tree", path="@/finish")


def nothing() -> None:
    """The harm heals by itself."""


def test_a_session_that_is_killed(lab: Lab) -> None:
    survives(lab.h2.host_settings(), lab.h2.kill_sessions, nothing)


def test_a_link_that_is_cut(lab: Lab) -> None:
    survives(lab.h2.host_settings(), lambda: lab.h2.cut("drop"), lab.h2.heal)


@pytest.mark.parametrize("via", ["pct", "lxc-attach"])
def test_a_session_into_a_container_that_is_killed(
    lab: Lab, via: Literal["pct", "lxc-attach"]
) -> None:
    survives(lab.container.host_settings(via), lab.h1.kill_sessions, nothing)
