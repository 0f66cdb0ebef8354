"""tune against a stand-in whose speed depends on the number of draft tokens: what it finds, that it
changes nothing, and that what served serves again however it ends."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from deployctl.config.playbook import Playbook
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run.coordinator import run
from deployctl.engine.run.options import Options
from tests.hosts.served.client import PollingClient
from tests.hosts.served.host import ServedHost

PACE = {"0": 0.8, "1": 0.8, "3": 0.2, "7": 0.4}
"""Seconds of each answer: 3 draft tokens are fastest, twice as fast as the serving 7. They are long
beside what a busy machine adds to each."""
PLAYBOOK = Playbook.model_validate({"name": "tune", "steps": ["tune"]})


def paced(pace: dict[str, float]) -> str:
    return f"serve.env.STAND_IN_PACE='{json.dumps(pace)}'"


def tuned(host: ServedHost, **given: Any) -> RunRecord:
    """A tuning of 12 rounds, one request at a time."""
    asked = {"rounds": 12, "concurrencies": [1], **given}
    return run(host.profile(), PLAYBOOK, Options(steps={"tune": asked}, release="current"))


def test_the_fastest_value_is_found_beside_what_serves(served: ServedHost) -> None:
    assert served.up(paced(PACE)).exit_code == 0
    before, releases = served.unit(), served.releases()
    # Where the machine stood still in a round, the verdict is unclear, and rightly: measured again.
    for _ in range(3):
        (host,) = tuned(served, values=[0, 1, 3]).hosts
        assert host.error is None, host.error
        found = host.steps[0].evidence
        (level,) = found["levels"]
        if level["verdict"] != "unclear":
            break
    assert [one["value"] for one in level["candidates"]] == [0, 1, 3, 7]
    assert (level["best"], level["second"], level["verdict"]) == (3, 7, "change")
    gain = level["gain"]
    # No upper bound: such a round of the serving value makes the gain look larger.
    assert 0 < gain["interval"]["low"] <= gain["share"] <= gain["interval"]["high"]
    assert found["propose"] == ["drafter.num_speculative_tokens=3"]
    assert found["beside"] and found["failed"] == []
    # Nothing was changed, and nothing is left.
    after = served.unit()
    assert (after["pid"], after["start"]) == (before["pid"], before["start"])
    assert served.releases()["current"] == releases["current"]
    assert host.without_service is None
    assert [*served.ask("units.listing", profile="stand")] == ["server"]


@pytest.mark.slow
def test_in_place_of_what_serves_which_serves_again(served: ServedHost) -> None:
    assert served.up(paced(PACE)).exit_code == 0
    before = served.unit()
    with PollingClient(served.port) as client:
        record = tuned(served, values=[3], interrupt=True)
    (host,) = record.hosts
    assert record.exit_code == 0 and not host.still_without_service
    assert host.steps[0].evidence["levels"][0]["best"] == 3
    (outage,) = (gap for gap in client.gaps if gap)
    assert host.without_service is not None and outage <= host.without_service
    _serves_again(served, before)
    # The process is another one: its gates run again.
    assert served.up(paced(PACE)).outcome == "passed"


@pytest.mark.slow
def test_an_interrupt_brings_back_what_served(served: ServedHost) -> None:
    assert served.up(paced(PACE)).exit_code == 0
    before = served.unit()
    argv = ("tune", "--interrupt", "--values", "3", "--json")
    with served.start(*argv) as running:
        running.told("at once")
        running.send_signal(signal.SIGINT)
        (host,) = json.loads(running.output())["hosts"]
    assert running.returncode == 130
    assert host["gaps"] and "proven ready; nothing was changed" in host["error"]["why"]
    assert host["error"]["next"] == "measure again: deployctl tune --profile stand"
    _serves_again(served, before)


@pytest.mark.slow
def test_an_interrupt_shows_what_was_measured(served: ServedHost) -> None:
    assert served.up(paced(PACE)).exit_code == 0
    argv = ("tune", "--values", "1,3", "--rounds", "12", "--concurrency", "1", "--json")
    with served.start(*argv) as running:
        running.told("with 1 draft tokens, 1 at once")
        running.send_signal(signal.SIGTERM)
        (host,) = json.loads(running.output())["hosts"]
    (level,) = host["steps"][0]["evidence"]["levels"]
    assert [one["value"] for one in level["candidates"]] == [3, 7]


@pytest.mark.slow
def test_a_failure_brings_back_what_served(served: ServedHost) -> None:
    slow = (paced({"7": 1.5}), "acceptance.timeout=1s")
    assert served.up(*slow, skip=frozenset({"acceptance"})).exit_code == 0
    before = served.unit()
    record = tuned(served, values=[3], interrupt=True)
    assert record.exit_code == 11
    error = record.hosts[0].error
    assert error is not None and "the serving value 7 could not be measured" in str(error.what)
    _serves_again(served, before)


@pytest.mark.slow
def test_after_a_kill_the_next_run_serves_and_removes_what_is_left(served: ServedHost) -> None:
    assert served.up(paced(PACE)).exit_code == 0
    with served.start("tune", "--interrupt", "--values", "3", "--json") as running:
        running.told("at once")
        running.kill()
        running.communicate()
    assert served.unit()["state"] not in ("starting", "running")
    record = served.up(paced(PACE))
    (host,) = record.hosts
    assert record.exit_code == 0 and host.recovered_run and host.without_service is not None
    assert len(served.ask("units.listing", profile="stand")) == 2
    assert tuned(served, values=[3]).exit_code == 0
    assert [*served.ask("units.listing", profile="stand")] == ["server"]


def _serves_again(served: ServedHost, before: dict[str, Any]) -> None:
    after = served.unit()
    assert after["state"] == "running" and after["kept"]
    assert after["pid"] != before["pid"] and after["release"] == before["release"]
    assert [*served.ask("units.listing", profile="stand")] == ["server"]
