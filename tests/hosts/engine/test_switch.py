"""The switch and the way back, with real agents, supervisors and processes."""

from __future__ import annotations

import json

import pytest

from deployctl.agent.processes.processes import is_same
from tests.hosts.served.client import PollingClient
from tests.hosts.served.host import STALE, ServedHost

OTHER = "serve.env.WHICH=other"
STARTS_NOT = "serve.env.STAND_IN_FAULT=start"


def test_nothing_to_do_is_one_round_trip(served: ServedHost) -> None:
    first = served.up()
    assert (first.outcome, first.exit_code) == ("deployed", 0)
    pid = served.unit()["pid"]
    again = served.up()
    assert again.outcome == "unchanged"
    assert again.hosts[0].round_trips == 1
    assert served.unit()["pid"] == pid
    assert len(served.ledger()) == 1, "a run that did nothing leaves no entry"


def test_a_good_release_replaces_the_other(served: ServedHost) -> None:
    served.up()
    with PollingClient(served.port) as client:
        second = served.up(OTHER, listen=client.looks_at("launch"))
    host = second.hosts[0]
    assert second.outcome == "deployed"
    releases = served.releases()
    assert (releases["current"], releases["previous"]) == (host.release, host.previous)
    assert len(client.gaps) == len(host.outages) == 1
    assert client.gaps[0] <= host.outages[0]
    assert host.without_service == sum(host.outages)


def test_a_release_that_fails_its_gate_makes_way_for_the_previous(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    with PollingClient(served.port) as client:
        failed = served.up(STALE, listen=client.looks_at("launch", "smoke"))
    host = failed.hosts[0]
    assert (failed.outcome, failed.exit_code, host.restored) == ("rolled-back", 10, True)
    unit = served.unit()
    assert (unit["release"], unit["state"], unit["kept"]) == (good, "running", True)
    assert served.releases()["current"] == good
    # The failed release answered while it was judged: two gaps, and both are told.
    assert len(client.gaps) == len(host.outages) == 2
    for seen, told in zip(client.gaps, host.outages, strict=True):
        assert seen <= told
    assert host.release in served.releases()["releases"], "it is kept for a look"
    assert served.ledger()[-1]["verdicts"]["acceptance"]["verdict"] == "fail"


def test_a_release_that_does_not_start_costs_one_gap(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    with PollingClient(served.port) as client:
        failed = served.up(STARTS_NOT, listen=client.looks_at("launch"))
    host = failed.hosts[0]
    assert failed.outcome == "rolled-back"
    assert served.unit()["release"] == good
    assert len(client.gaps) == len(host.outages) == 1
    assert client.gaps[0] <= host.outages[0]


def test_a_stricter_gate_is_a_verdict_on_what_serves(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    pid = served.unit()["pid"]
    strict = served.up("acceptance.min_length=9")
    assert (strict.outcome, strict.exit_code) == ("failed", 9)
    assert strict.hosts[0].release == good
    assert served.unit()["pid"] == pid, "it goes on serving"
    assert served.up().outcome == "unchanged", "the gate that it passed is still passed"
    assert served.up("acceptance.min_length=9").exit_code == 9


def test_a_verdict_that_turned_is_not_forgotten(served: ServedHost) -> None:
    served.up()
    config = served.root / "profiles/stand/units/server/current/drafter/config.json"
    asked = served.up(check_gates=True)
    assert asked.outcome == "passed"
    manifest = served.releases()["releases"][asked.hosts[0].release]
    entry = {
        "kind": "end",
        "outcome": "failed",
        "run": "20260101T000000Z-000000",
        "release": asked.hosts[0].release,
        "verdicts": {
            "smoke": {"verdict": "wrong", "asked": manifest["evidence"]["smoke"]["asked"]}
        },
    }
    served.ask("releases.record", profile="stand", entry=entry)
    again = served.up()
    assert [s.step for s in again.hosts[0].steps if s.status == "passed"] == ["smoke"]
    assert served.up().outcome == "unchanged"
    assert config.exists()


def test_the_failed_release_stays_when_asked(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    failed = served.up(STALE, keep_failed=True)
    assert failed.exit_code == 9
    assert served.unit()["release"] == failed.hosts[0].release
    assert served.releases()["current"] == good
    back = served.up(STALE)
    assert back.outcome == "rolled-back", "tried again without keep_failed it makes way"
    assert served.unit()["release"] == good


def test_unattended_a_known_failure_costs_no_second_gap(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    assert served.up(STALE, only_if_changed=True).outcome == "rolled-back"
    pid = served.unit()["pid"]
    asked = served.up(STALE, only_if_changed=True)
    assert (asked.outcome, asked.hosts[0].release) == ("passed", good), "a process never asked"
    again = served.up(STALE, only_if_changed=True)
    assert (again.outcome, again.hosts[0].release) == ("unchanged", good)
    assert served.unit()["pid"] == pid
    served.ask("units.stop", profile="stand", unit="server", grace=0.1)
    healed = served.up(STALE, only_if_changed=True)
    assert (healed.outcome, served.unit()["release"]) == ("deployed", good)
    assert served.up(STALE, "acceptance.min_length=1", only_if_changed=True).outcome == "deployed"


def test_at_night_only_what_is_no_worse_is_kept(served: ServedHost) -> None:
    worse = "drafter.num_speculative_tokens=6"
    good = served.up().hosts[0].release
    night = served.up(worse, playbook="nightly")
    error = night.hosts[0].error
    assert (night.outcome, served.unit()["release"]) == ("rolled-back", good)
    assert error is not None and "below" in error.what
    assert served.up(worse).outcome == "deployed", "the profile's own floor lets it pass"


def test_a_night_after_a_night_measures_nothing(served: ServedHost) -> None:
    assert served.up(playbook="nightly").outcome == "deployed"
    assert served.up(playbook="nightly").outcome == "unchanged"
    assert served.up().outcome == "unchanged"


def test_redeploy_starts_anew_what_runs_as_wanted(served: ServedHost) -> None:
    served.up()
    before = served.unit()
    again = served.up(playbook="redeploy")
    after = served.unit()
    assert again.outcome == "deployed" and len(again.hosts[0].outages) == 1
    assert after["release"] == before["release"] and after["pid"] != before["pid"]


def test_what_is_blocked_touches_nothing(served: ServedHost) -> None:
    served.up()
    pid = served.unit()["pid"]
    blocked = served.up("drafter.config={dflash_config.target_layer_ids: [99, 3, 5]}")
    assert blocked.exit_code == 6
    assert served.unit()["pid"] == pid
    assert not blocked.hosts[0].outages


def test_what_is_blocked_still_goes_back_from_where_a_run_died(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    begin = {"kind": "begin", "run": "r0", "playbook": "up", "release": "x", "current": good}
    for entry in (begin, {"kind": "phase", "run": "r0", "phase": "switching"}):
        served.ask("releases.record", profile="stand", entry=entry)
    served.ask("units.stop", profile="stand", unit="server", grace=0.1)
    blocked = served.up("drafter.config={dflash_config.target_layer_ids: [99, 3, 5]}")
    assert (blocked.exit_code, blocked.hosts[0].recovered_run) == (10, "r0")
    assert (served.unit()["release"], served.unit()["kept"]) == (good, True)


def test_a_prepared_release_is_not_proven(served: ServedHost) -> None:
    served.up()
    prepared = served.up(OTHER, playbook="prepare")
    assert prepared.exit_code == 0
    assert served.releases()["releases"][prepared.hosts[0].release] is None


def test_the_manifest_tells_what_a_release_is(served: ServedHost) -> None:
    release = served.up().hosts[0].release
    manifest = served.releases()["releases"][release]
    assert manifest["packages"] == {"vllm": "0.32.0"}
    assert manifest["launch"][1] == "serve"
    assert manifest["drafter_config"] == manifest["evidence"]["drafter"]["sha256"]
    assert manifest["evidence"]["acceptance"]["mean_acceptance_length"] == 8.0
    assert "VLLM_API_KEY" not in json.dumps(manifest)


@pytest.mark.parametrize("fault", ["hang", "smoke"])
def test_other_failures_lead_back_too(served: ServedHost, fault: str) -> None:
    good = served.up().hosts[0].release
    if fault == "hang":
        # What serves does not end on SIGTERM: it is killed after its grace time.
        stuck = served.up("serve.env.STAND_IN_FAULT=hang")
        assert stuck.outcome == "deployed"
        assert served.up().outcome == "deployed"
    else:
        assert served.up("serve.env.STAND_IN_FAULT=smoke").outcome == "rolled-back"
    assert served.unit()["release"] == good


def test_a_server_killed_behind_our_back_is_started_again(served: ServedHost) -> None:
    served.up()
    unit = served.unit()
    served.ask("units.stop", profile="stand", unit="server", grace=0.1)
    again = served.up()
    assert again.outcome == "deployed"
    assert served.unit()["pid"] != unit["pid"]
    assert not is_same(unit["pid"], unit["start"])
