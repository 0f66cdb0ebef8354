"""A host that an older deployctl left: its units are taken over while they serve."""

from __future__ import annotations

import os
import signal

import pytest

from deployctl.engine.inspect import history, status
from deployctl.engine.ledger.garbage import collect
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.served.client import PollingClient
from tests.hosts.served.host import ServedHost
from tests.hosts.served.older.revive import revive

OTHER = "serve.env.WHICH=other"
MODELS = "http://127.0.0.1:{}/v1/models"


def test_what_serves_goes_on_and_its_releases_are_found(served: ServedHost) -> None:
    revive(served, "recreate", [served.port], {"profiles/stand/server": MODELS.format(served.port)})
    older = served.releases()
    pid = served.unit()["pid"]
    (host,) = status.survey(served.profile(OTHER))["hosts"]
    assert (host["healthy"], host["proven"], host["pid"]) == (True, True, pid)
    with PollingClient(served.port) as client:
        # Its gates had judged the process before the way back that was recorded last.
        assert served.up(OTHER).outcome == "passed"
        assert served.up(OTHER).outcome == "unchanged"
    home = served.root / "profiles/stand/units/server"
    assert (home / "releases").is_dir() and not (home / "releases").is_symlink()
    found = served.releases()
    assert {*found["releases"]} == {*older["releases"]} and len(older["releases"]) == 3
    assert (found["current"], found["previous"]) == (older["current"], older["previous"])
    unit = served.unit()
    assert (client.gaps, unit["pid"], unit["supervised"]) == ([], pid, True)
    # Its supervisor goes on as well, by the path that it knows.
    os.kill(pid, signal.SIGKILL)
    wait_for(
        "its supervisor",
        lambda: (served.unit()["restarts"], served.unit()["state"]) == (1, "running"),
    )
    again = served.up(OTHER)
    assert (again.outcome, served.unit()["restarts"]) == ("passed", 1), again.hosts[0].error
    back = served.up(playbook="rollback")
    assert (back.outcome, served.unit()["release"]) == ("deployed", older["previous"])
    assert served.up(OTHER).hosts[0].release == older["current"]
    assert served.ask("releases.profiles") == ["stand"]
    (removed,) = collect(served.profile(OTHER), keep=0, dry_run=False)["hosts"]
    assert {one["unit"] for one in removed["removed"] if one["kind"] == "releases"} == {"server"}
    assert set(served.releases()["releases"]) == {older["current"], older["previous"]}


@pytest.fixture
def slots(served: ServedHost) -> ServedHost:
    """A host whose two slots and front an older deployctl left; green serves."""
    blue, green = free_port(), free_port()
    served.blue_green(blue, green)
    serves = {"profiles/stand.green/server": green, "profiles/stand/server": served.port}
    revive(
        served,
        "slots",
        [served.port, blue, green],
        {directory: MODELS.format(port) for directory, port in serves.items()},
    )
    return served


def test_slots_and_their_front_are_taken_over_without_a_gap(slots: ServedHost) -> None:
    assert slots.ask("releases.profiles") == ["stand"]
    green, front = slots.unit("stand.green")["pid"], slots.unit("stand.front")["pid"]
    assert green and front
    (before,) = history.ledger(slots.profile(), 50)["hosts"]
    with PollingClient(slots.port) as client:
        assert slots.up(OTHER).outcome == "unchanged"
        first = slots.ask("releases.state", profile="stand", unit="blue")["current"]
        back = slots.up(OTHER, playbook="rollback")
    assert (back.outcome, back.hosts[0].unit) == ("deployed", "blue"), back.hosts[0].error
    assert (client.gaps, slots.unit("stand.blue")["release"]) == ([], first)
    assert slots.unit("stand.front")["pid"] == front
    assert slots.unit("stand.green")["state"] == "stopped"
    (after,) = history.ledger(slots.profile(), 50)["hosts"]
    assert after["runs"][:-1] == before["runs"] and len(before["runs"]) == 3
    assert after["runs"][-1]["unit"] == "blue"
    assert slots.up(OTHER, playbook="down").exit_code == 0
    assert {one["state"] for one in slots.ask("units.listing", profile="stand").values()} == {
        "stopped"
    }
