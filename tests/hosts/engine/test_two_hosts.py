"""Two hosts of which one dies in a redeploy, or the controller of both: what lives is done, and one
`up` later both serve something proven, by their own ledgers. Ctrl-C over three."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deployctl.hosts import operations
from deployctl.hosts.session import Call
from tests.hosts.lab import processes
from tests.hosts.served.host import STALE, Running
from tests.hosts.served.many import Machine, ManyHosts, needs_root
from tests.slow import some

pytestmark = pytest.mark.skipif(needs_root(), reason="needs root for networks of their own")
OTHER = "serve.env.STAND_IN_START=0.7"
SLOW = "serve.env.STAND_IN_START=300"
UNREACHABLE = 4

Fate = Callable[[ManyHosts, Running], None]


@pytest.fixture
def many(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ManyHosts]:
    """So many hosts that serve."""
    with ManyHosts(tmp_path, getattr(request, "param", 2)) as hosts:
        assert hosts.up().exit_code == 0
        yield hosts


def controller(hosts: ManyHosts, run: Running) -> None:
    os.kill(run.pid, signal.SIGKILL)


def agent(hosts: ManyHosts, run: Running) -> None:
    """The first host's agent dies."""
    below = processes.descendants(hosts.machines[0].sshd.pid)
    # What the agent started for a moment comes after it.
    pid = next(pid for pid in below if processes.name_of(pid).startswith("python"))
    os.kill(pid, signal.SIGKILL)


def unreachable(hosts: ManyHosts, run: Running) -> None:
    """The first host hangs up, and answers no more."""
    hosts.machines[0].sshd.stop()


@dataclass(frozen=True)
class Point:
    """What befalls the first host, or the run, when the run says `line` about that host."""

    fate: Fate
    line: str
    wish: str = OTHER


POINTS = {
    "controller, staging": Point(controller, "drafter: started"),
    "controller, stopping the old": Point(controller, "clean: started"),
    "controller, awaiting the new": Point(controller, "ready: started"),
    "controller, rolling back": Point(controller, "rolling back", STALE),
    "agent, staging": Point(agent, "drafter: started"),
    "agent, stopping the old": Point(agent, "clean: started"),
    "agent, awaiting the new": Point(agent, "ready: started"),
    "agent, rolling back": Point(agent, "rolling back", STALE),
    "unreachable, staging": Point(unreachable, "drafter: started"),
    "unreachable, stopping the old": Point(unreachable, "clean: started"),
    "unreachable, awaiting the new": Point(unreachable, "ready: started"),
    "unreachable, rolling back": Point(unreachable, "rolling back", STALE),
}
ALWAYS = ("controller, awaiting the new", "unreachable, awaiting the new")
"""The other points are slow by their number."""


def releases(machine: Machine) -> dict[str, Any]:
    (found,) = machine.ask(Call(operations.releases.state, unit="server", profile="stand", last=0))
    return dict(found)


def runs(machine: Machine, kind: str) -> list[str]:
    return [str(one["run"]) for one in releases(machine)["ledger"] if one["kind"] == kind]


@pytest.mark.parametrize("name", some(POINTS, ALWAYS))
def test_one_up_later_both_serve_something_proven(many: ManyHosts, name: str) -> None:
    point, (first, second) = POINTS[name], many.machines
    old = releases(first)["current"]
    line = f"{first.name}: {point.line}"
    if point.line == "rolling back":
        line = f"{first.name}: restore: rolling back"
    with many.start("up", "--json", "--set", point.wish, stops_at=line) as run:
        run.told(line)
        point.fate(many, run)
        run.go_on()
        output = run.output()
    if point.fate is not controller:
        hit, other = json.loads(output)["hosts"]
        assert run.returncode == UNREACHABLE and hit["error"]["what"].startswith(first.name)
        assert bool(other["restored"]) is (point.wish == STALE), "the other one was done"
        assert (releases(second)["current"] == old) is (point.wish == STALE)
    if point.fate is unreachable:
        first.sshd.start()
    after = many.up(OTHER, lock_wait=300.0)
    assert after.exit_code == 0, [host.error for host in after.hosts]
    for machine, unit, host in zip(many.machines, many.units(), after.hosts, strict=True):
        assert unit["state"] == "running" and unit["kept"]
        assert unit["release"] == host.release == releases(machine)["current"] != old
        assert {*runs(machine, "begin")} <= {*runs(machine, "end")}, "no run is left open"


@pytest.mark.parametrize("many", [3], indirect=True)
def test_an_interrupt_leaves_every_host_as_the_docs_say(many: ManyHosts) -> None:
    good = releases(many.machines[0])["current"]
    before = [len(runs(machine, "begin")) for machine in many.machines]
    argv = ("up", "--json", "--set", SLOW, "--parallel", "2")
    with many.start(*argv) as run:
        for _ in range(2):
            run.told("ready: started")
        run.send_signal(signal.SIGINT)
        output = run.output()
    document = json.loads(output)
    assert run.returncode == 130 and document["outcome"] == "interrupted"
    switched = [host for host in document["hosts"] if host["steps"]]
    (waited,) = (host for host in document["hosts"] if not host["steps"])
    assert len(switched) == 2
    for host in switched:
        assert host["restored"] is True, (host["error"], host["way_back_error"])
        assert host["without_service"] > 0
        assert "interrupted" in host["error"]["what"]
    assert waited["error"]["why"] == "nothing was touched"
    for machine, unit, count in zip(many.machines, many.units(), before, strict=True):
        assert (unit["release"], unit["kept"]) == (good, True)
        begun, ended = runs(machine, "begin"), runs(machine, "end")
        assert len(begun) - count == (machine.name != waited["host"])
        assert {*begun} <= {*ended}
