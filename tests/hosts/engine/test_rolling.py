"""Rolling: replicas behind the real vllm-router get a new release one after the other, and no
request is lost, whatever ends the roll."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.hosts.session import Call
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root
from tests.hosts.served.replicas import ROUTER_PORT, Replicas, address

# Each costs the starts of several servers; test_rolling.py and test_routing.py in tests/unit/engine
# have the same decisions as data.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="namespaces need root"),
]
OTHER = "serve.env.WHICH=other"
TRACKS = "serve.args={enable-server-load-tracking: true}"
FAILS = 'if os.environ.get("WHICH") == "other":\n    sys.exit("the stand-in was told to fail")\n'


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Replicas]:
    """Two replicas that serve, and a router on the first's host."""
    with Replicas(tmp_path, 2) as hosts:
        record = hosts.up(TRACKS)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        assert hosts.workers() == hosts.all()
        yield hosts


def releases(hosts: Replicas) -> list[str]:
    return [unit["release"] for unit in hosts.units()]


def lossless(became: dict[str, Any]) -> bool:
    return became["sent"] > 20 and not became["failed"] and not became["cut"]


def test_a_roll_loses_no_request_and_a_failed_gate_ends_it(two: Replicas) -> None:
    before = releases(two)
    with two.asking() as became:
        record = two.up(TRACKS, OTHER)
    assert record.outcome == "deployed", [host.error for host in record.hosts]
    assert lossless(became), became
    after = releases(two)
    assert not {*before} & {*after} and two.workers() == two.all()
    for host in record.hosts:
        (left,) = (step for step in host.steps if step.step == "leave")
        assert left.evidence["removed"] and left.evidence["in_flight"] == 0
    with two.asking() as became:
        record = two.up(TRACKS, OTHER, STALE)
    assert (record.outcome, record.exit_code) == ("rolled-back", 10)
    assert [bool(host.held_back) for host in record.hosts] == [False, True]
    assert lossless(became), became
    assert releases(two) == after and two.workers() == two.all()
    with two.asking() as became:
        record = two.up(playbook="rollback")
    assert record.outcome == "deployed", [host.error for host in record.hosts]
    assert lossless(became), became
    assert releases(two) == before and two.workers() == two.all()


def test_what_serves_joins_whatever_left_it_out(two: Replicas) -> None:
    assert two.up(TRACKS).outcome == "unchanged"
    replica = f"http://{address(1)}:{two.port}"
    url = f"http://127.0.0.1:{ROUTER_PORT}/remove_worker?url={replica}"
    two.machines[0].ask(Call("network.http", method="POST", url=url))
    assert two.workers() == {"127.0.0.1": True}
    record = two.up(TRACKS)
    assert record.outcome == "changed" and two.workers() == two.all()
    assert two.up(TRACKS).outcome == "unchanged"
    # What serves nothing is in nobody's way.
    two.machines[1].ask(Call("units.stop", profile="stand", unit="server", grace=0.5))
    assert two.up(TRACKS).exit_code == 0
    assert two.workers() == two.all()


def test_a_killed_router_comes_back_with_its_replicas(two: Replicas) -> None:
    before = two.router()
    os.kill(before["pid"], signal.SIGKILL)
    wait_for("another router", lambda: two.router()["restarts"] == before["restarts"] + 1)
    wait_for("its answer", lambda: two.router()["pid"] != before["pid"] and _answers(two))
    assert two.workers() == two.all()
    two.machines[0].ask(Call("units.stop", profile="stand", unit="router", grace=2))
    record = two.up(TRACKS)
    assert (record.outcome, two.workers()) == ("changed", two.all())


def _answers(hosts: Replicas) -> bool:
    url = f"http://127.0.0.1:{ROUTER_PORT}/readiness"
    (answer,) = hosts.machines[0].ask(Call("network.http", method="GET", url=url))
    return bool(answer["status"] == 200)


POINTS = {
    f"{host}, {words}": f"{host}: {words}"
    for host in ("host00", "host01")
    for words in (
        "leave: done",
        "clean: done",
        "launch: done",
        "ready: done",
        "acceptance: passed",
        "join: done",
    )
}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("name", POINTS)
def test_the_next_up_ends_an_interrupted_roll(
    two: Replicas, name: str, number: signal.Signals
) -> None:
    before = releases(two)
    line = POINTS[name]
    with two.asking() as became:
        # It says the same of a rollback, at which nobody would have it go on.
        stops_at = line if number == signal.SIGKILL else ""
        with two.start("up", "--set", TRACKS, "--set", OTHER, stops_at=stops_at) as run:
            run.told(line)
            run.send_signal(number)
            run.output()
        record = two.up(TRACKS, OTHER, lock_wait=300.0)
    assert record.exit_code == 0, [host.error for host in record.hosts]
    assert lossless(became), became
    assert not {*before} & {*releases(two)} and two.workers() == two.all()


@pytest.mark.parametrize("on_failure", ["back", "stop"])
def test_those_that_had_switched_go_back_where_the_profile_wants_that(
    two: Replicas, on_failure: str
) -> None:
    before = releases(two)
    (program,) = two.machines[1].root.glob("environments/*/bin/vllm")
    text = program.read_text("utf-8")
    program.write_text(text.replace("MASK_TOKEN = 3\n", f"MASK_TOKEN = 3\n{FAILS}"), "utf-8")
    with two.asking() as became:
        record = two.up(TRACKS, OTHER, f"roll.on_failure={on_failure}")
    assert record.exit_code == 10, [host.error for host in record.hosts]
    assert lossless(became), became
    assert two.workers() == two.all()
    first, second = releases(two)
    assert second == before[1] and (first == before[0]) is (on_failure == "back")
    current = [machine.ask(STATE)[0]["current"] for machine in two.machines]
    assert current == [first, second]


STATE = Call("releases.state", profile="stand", unit="server", last=0)


def test_one_replica_alone_is_updated_beside_a_router_on_another_host(two: Replicas) -> None:
    before = releases(two)
    with (
        two.asking() as became,
        two.start("up", "--host", "host01", "--set", TRACKS, "--set", OTHER) as run,
    ):
        run.output()
    assert run.returncode == 0 and lossless(became), became
    first, second = releases(two)
    assert first == before[0] and second != before[1]
    assert two.workers() == two.all()


def test_one_replica_is_taken_down_beside_a_router_on_another_host(two: Replicas) -> None:
    with two.asking() as became, two.start("down", "--host", "host01") as run:
        run.output()
    assert run.returncode == 0 and lossless(became), became
    assert [unit["state"] for unit in two.units()] == ["running", "stopped"]
    assert two.workers() == {"127.0.0.1": True}
    with two.start("plan", "--set", TRACKS, "--set", OTHER) as run:
        output = run.output()
    assert "one after the other: host00; host01" in output


def test_a_replica_that_hangs_is_back_by_itself(tmp_path: Path) -> None:
    watched = "serve.liveness={interval: 1s, completion: 2s, failures: 1}"
    with Replicas(tmp_path, 2) as hosts:
        record = hosts.up(TRACKS, watched)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        before = hosts.units()[1]
        with hosts.asking(rate=10) as became:
            os.kill(before["pid"], signal.SIGSTOP)
            wait_for(
                "another process", lambda: hosts.units()[1]["pid"] not in (None, before["pid"])
            )
            wait_for("it in the list", lambda: hosts.workers() == hosts.all(), 60.0)
        # What had not begun was asked of the other one; streams that had begun were lost.
        assert not became["failed"], became
        assert len(became["cut"]) <= 10, became
        assert hosts.units()[1]["restarts"] == 1


def test_behind_a_proxy_the_router_is_out_of_reach_and_may_be_restarted(tmp_path: Path) -> None:
    router = {"port": ROUTER_PORT, "private_port": 9001, "address": "0.0.0.0"}
    with Replicas(tmp_path, 2, router=router) as hosts:
        record = hosts.up(TRACKS)
        assert record.outcome == "deployed", [host.error for host in record.hosts]

        def at(port: int, path: str, host: str = "127.0.0.1") -> int | None:
            url = f"http://{host}:{port}{path}"
            (answer,) = hosts.machines[1].ask(Call("network.http", method="GET", url=url))
            status: int | None = answer["status"]
            return status

        public = address(0)
        assert at(ROUTER_PORT, "/v1/models", public) == 200
        assert at(ROUTER_PORT, "/workers", public) == 404
        assert at(9001, "/workers", public) is None
        before = hosts.router()["pid"]
        with hosts.asking() as became:
            record = hosts.up(TRACKS, "router.policy=random")
        assert record.outcome == "changed", [host.error for host in record.hosts]
        assert hosts.router()["pid"] != before
        assert lossless(became), became
        assert hosts.up(TRACKS, "router.policy=random").outcome == "unchanged"


def test_a_release_that_failed_on_one_replica_is_not_tried_on_another(two: Replicas) -> None:
    before = releases(two)
    assert two.up(TRACKS, STALE).exit_code == 10
    record = two.up(TRACKS, STALE, only_if_changed=True)
    assert record.exit_code == 0, [host.error for host in record.hosts]
    declined, held_back = record.hosts
    assert declined.declined and held_back.held_back.endswith(declined.declined)
    assert releases(two) == before and two.workers() == two.all()


def test_two_of_three_at_once(tmp_path: Path) -> None:
    with Replicas(tmp_path, 3, roll={"at_once": 2}) as hosts:
        record = hosts.up(TRACKS)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        before = releases(hosts)
        with hosts.asking() as became:
            record = hosts.up(TRACKS, OTHER)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        assert [host.wave for host in record.hosts] == [1, 1, 2]
        assert lossless(became), became
        assert not {*before} & {*releases(hosts)} and hosts.workers() == hosts.all()
