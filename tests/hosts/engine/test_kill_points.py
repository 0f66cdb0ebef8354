"""Whatever is killed in a redeploy: one `up` later the old or the new release serves, proven, and
the ledger tells what happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deployctl.hosts.session import Limits
from tests.hosts.lab import processes
from tests.hosts.served.host import STALE, Running, ServedHost
from tests.slow import some

OTHER = "serve.env.STAND_IN_START=0.7"
AT_ONCE = 40.0
"""Seconds, which are fewer than an agent lives on in silence."""

Victim = Callable[[ServedHost, Running], int]


def controller(host: ServedHost, run: Running) -> int:
    return run.pid


def agent(host: ServedHost, run: Running) -> int:
    (pid,) = processes.children(run.pid)
    return pid


def server(host: ServedHost, run: Running) -> int:
    return int(host.supervised()["pid"])


def supervisor(host: ServedHost, run: Running) -> int:
    return int(host.supervised()["supervisor"]["pid"])


@dataclass(frozen=True)
class Point:
    """`victim` is killed when the run says `line`."""

    victim: Victim
    line: str
    wish: str = OTHER
    closed_as: str = "died"
    """How the ledger closes the run that was hit."""


POINTS = {
    "controller, staging": Point(controller, "drafter: started"),
    "controller, stopping the old": Point(controller, "clean: started"),
    "controller, starting the new": Point(controller, "launch: started"),
    "controller, awaiting the new": Point(controller, "ready: started"),
    "controller, judging the new": Point(controller, "acceptance: started"),
    "controller, rolling back": Point(controller, "rolling back", STALE),
    "agent, stopping the old": Point(agent, "clean: started"),
    "agent, awaiting the new": Point(agent, "ready: started"),
    "agent, rolling back": Point(agent, "rolling back", STALE),
    "the new server, judged": Point(server, "acceptance: started", closed_as="rolled-back"),
    "the old server, staging": Point(server, "drafter: started", closed_as="deployed"),
    "the new server's supervisor": Point(supervisor, "smoke: started", closed_as="deployed"),
}


def hit(host: ServedHost, point: Point) -> None:
    """Start a redeploy, kill the victim at its point, and wait for the run's end."""
    with host.start("up", "--set", point.wish, stops_at=point.line) as run:
        run.told(point.line)
        os.kill(point.victim(host, run), signal.SIGKILL)
        run.go_on()
        run.output()


AT_EACH_HAND = (
    "controller, starting the new",
    "agent, awaiting the new",
    "the new server, judged",
    "the new server's supervisor",
)
"""Whoever dies, at one point each; the other points are slow by their number."""


@pytest.mark.parametrize("name", some(POINTS, AT_EACH_HAND))
def test_one_up_later_something_proven_serves(served: ServedHost, name: str) -> None:
    point = POINTS[name]
    old = served.up().hosts[0].release
    hit(served, point)
    after = served.up(point.wish, lock_wait=300.0)
    host = after.hosts[0]
    assert after.exit_code in (0, 10), host.error
    unit, releases = served.unit(), served.releases()
    assert unit["state"] == "running" and unit["kept"] and unit["supervised"]
    assert unit["release"] == releases["current"]
    assert unit["release"] == (host.release if after.exit_code == 0 else old)
    begun, ended = served.ledger("begin"), served.ledger("end")
    assert [e["run"] for e in begun if e["run"] not in {x["run"] for x in ended}] == []
    hit_run = next(e for e in ended if e["run"] == begun[1]["run"])
    assert hit_run["outcome"] == point.closed_as
    if point.closed_as == "died":
        assert hit_run["closed_by"] == after.run == ended[-1]["run"] or host.recovered_run


def test_the_time_without_service_begins_with_the_run_that_died(served: ServedHost) -> None:
    served.up()
    hit(served, POINTS["controller, awaiting the new"])
    after = served.up(OTHER, lock_wait=300.0)
    host = after.hosts[0]
    phases = (e for e in served.ledger("phase") if e["run"] == host.recovered_run)
    switching = next(e for e in phases if e["phase"] == "switching")
    assert after.exit_code == 0 and host.without_service is not None
    assert host.without_service > after.started.timestamp() - switching["time"]


def test_the_way_back_is_finished_before_the_failed_release_is_tried_again(
    served: ServedHost,
) -> None:
    old = served.up().hosts[0].release
    hit(served, POINTS["controller, rolling back"])
    after = served.up(STALE, lock_wait=300.0)
    host = after.hosts[0]
    assert (after.outcome, after.exit_code) == ("rolled-back", 10)
    assert served.unit()["release"] == old
    assert "acceptance" not in [s.step for s in host.steps if s.status != "skipped"]
    assert host.error is not None and "below the floor" in host.error.why


def test_a_killed_holder_frees_the_lock_at_once(served: ServedHost) -> None:
    served.up()
    with served.start("up", "--set", OTHER, stops_at="ready: started") as run:
        run.told("ready: started")
        skipped = served.up()
        assert (skipped.outcome, skipped.exit_code) == ("skipped", 5)
        assert skipped.hosts[0].error is not None and str(run.pid) in skipped.hosts[0].error.why
        run.kill()
    assert Limits().silence > AT_ONCE, "no silence has to be waited for"
    assert served.up(lock_wait=AT_ONCE).exit_code == 0
