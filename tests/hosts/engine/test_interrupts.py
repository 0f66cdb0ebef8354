"""Ctrl-C: staging leaves all as it was; switching goes back; twice tells what is left."""

from __future__ import annotations

import json
import signal

import pytest

from tests.hosts.served.host import ServedHost
from tests.slow import some

SLOW = "serve.env.STAND_IN_START=300"


def report(output: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(output)
    return found


def test_while_staging_nothing_was_touched(served: ServedHost) -> None:
    served.up()
    pid = served.unit()["pid"]
    with served.start("up", "--set", SLOW, "--json", stops_at="state collected") as run:
        run.told("state collected")
        run.go_on(signal.SIGINT)
        output = run.output()
    assert run.returncode == 130
    assert report(output)["outcome"] == "interrupted"
    assert served.unit()["pid"] == pid
    assert served.up().outcome == "unchanged"


@pytest.mark.parametrize(
    "number", some([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], [signal.SIGINT])
)
def test_while_switching_the_way_back_is_finished(
    served: ServedHost, number: signal.Signals
) -> None:
    good = served.up().hosts[0].release
    with served.start("up", "--set", SLOW, "--json") as run:
        run.told("ready: started")
        run.send_signal(number)
        output = run.output()
    assert run.returncode == 130
    (host,) = json.loads(output)["hosts"]
    assert host["restored"] is True
    assert host["gaps"] and host["without_service"] > 0
    unit = served.unit()
    assert (unit["release"], unit["kept"]) == (good, True)
    assert served.ledger()[-1]["outcome"] == "interrupted"
    assert served.up().outcome == "passed", "the gates are asked of the process that came back"
    assert served.up().outcome == "unchanged"


def test_what_was_ignored_stays_ignored(served: ServedHost) -> None:
    served.up()
    argv = ("up", "--set", "serve.env.STAND_IN_START=1")
    with served.start(*argv, signals="ignore", stops_at="ready: started") as run:
        run.told("ready: started")
        run.go_on(signal.SIGHUP)
        output = run.output()
    assert run.returncode == 0 and "deployed" in output


def test_an_interrupt_waits_for_half_a_step(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    with served.start("up", "--set", SLOW, "--json", stops_at="clean: started") as run:
        run.told("clean: started")
        run.go_on(signal.SIGINT)
        output = run.output()
    (host,) = json.loads(output)["hosts"]
    assert run.returncode == 130
    assert {s["step"]: s["status"] for s in host["steps"]}["clean"] == "changed"
    assert served.unit()["release"] == good and served.unit()["kept"]


def test_the_second_one_says_exactly_what_is_left(served: ServedHost) -> None:
    served.up()
    with served.start("up", "--set", SLOW, "--json", stops_at="ready: started") as run:
        for _ in range(2):
            run.told("ready: started")
            run.go_on(signal.SIGINT)
        output = run.output()
    (host,) = json.loads(output)["hosts"]
    assert run.returncode == 130
    assert "was not finished" in host["error"]["what"]
    assert "not proven ready" in host["error"]["why"]
    assert "deployctl up --profile stand" in host["error"]["next"]
    after = served.up()
    assert after.exit_code == 0 and served.unit()["kept"]
