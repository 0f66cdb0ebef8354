"""Sleep: what serves sleeps while its successor is judged, and wakes where that fails."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_playbook
from deployctl.engine.inspect import status
from deployctl.engine.ledger.record import RunRecord, StepRecord
from deployctl.engine.run.coordinator import survey
from deployctl.engine.run.options import Options
from deployctl.steps import registry
from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.served.client import PollingClient
from tests.hosts.served.host import STALE, ServedHost
from tests.slow import some

OTHER = "serve.env.WHICH=other"


@pytest.fixture
def sleeper(served: ServedHost) -> ServedHost:
    served.sleeping()
    return served


def front(host: ServedHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(host.root / "profiles/stand/front.json").read_text())
    return found


def steps(record: RunRecord, name: str) -> list[StepRecord]:
    return [step for step in record.hosts[0].steps if step.step == name]


def test_what_serves_sleeps_until_its_successor_has_passed(sleeper: ServedHost) -> None:
    first = sleeper.up()
    assert (first.outcome, front(sleeper)["slot"]) == ("deployed", "blue"), first.hosts[0].error
    pid = sleeper.unit("stand.blue")["pid"]
    up = load_playbook("up", registry.options())
    (host,) = survey(sleeper.profile(OTHER), up, Options())
    assert "sleeps until its successor has passed" in host["plan"].handover
    with PollingClient(sleeper.port) as client:
        second = sleeper.up(OTHER)
    assert (second.outcome, front(sleeper)["slot"]) == ("deployed", "green"), second.hosts[0].error
    (slept,) = steps(second, "sleep")
    assert slept.evidence["unit"] == "blue" and slept.evidence["asleep"]
    # Nobody was refused: whoever asked meanwhile waited.
    assert client.gaps == [] and client.answers > 10
    assert len(second.hosts[0].outages) == 1
    assert sleeper.unit("stand.blue")["state"] == "stopped"
    assert sleeper.unit("stand.green")["pid"] != pid
    assert sleeper.up(OTHER).outcome == "unchanged"


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> int:
    """The status that a client gets; 0 for no answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_a_failed_gate_wakes_it(sleeper: ServedHost) -> None:
    first = sleeper.up()
    before = sleeper.unit("stand.blue")
    with PollingClient(sleeper.port) as client:
        failed = sleeper.up(STALE)
    assert (failed.outcome, failed.exit_code) == ("rolled-back", 10), failed.hosts[0]
    host = failed.hosts[0]
    assert host.restored and host.still_serving == first.hosts[0].release
    (woken,) = steps(failed, "restore-wake")
    assert woken.evidence["successor"] == "asleep"
    after = sleeper.unit("stand.blue")
    assert (after["pid"], after["start"]) == (before["pid"], before["start"])
    assert after["asleep"] is None and after["kept"]
    assert sleeper.unit("stand.green")["state"] == "stopped"
    assert client.gaps == [] and len(host.outages) == 2
    assert (front(sleeper)["slot"], front(sleeper)["leads"]) == ("blue", "blue")
    assert not front(sleeper).get("hold")
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200
    entries = sleeper.ask("releases.ledger", profile="stand")
    phases = [one["phase"] for one in entries if one["kind"] == "phase"]
    assert phases[-1] == "restoring" and entries[-1]["outcome"] == "rolled-back"


@pytest.mark.slow
def test_a_successor_that_does_not_start_wakes_it_too(sleeper: ServedHost) -> None:
    sleeper.up()
    pid = sleeper.unit("stand.blue")["pid"]
    failed = sleeper.up("serve.env.STAND_IN_FAULT=start")
    assert failed.outcome == "rolled-back"
    assert sleeper.unit("stand.blue")["pid"] == pid
    assert steps(failed, "restore-wake")[0].evidence["successor"] == "it did not run"
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


def test_control_endpoints_are_for_deployctl_alone(sleeper: ServedHost) -> None:
    sleeper.up()
    slot = sleeper.unit("stand.blue")["argv"]
    port = int(slot[slot.index("--port") + 1])
    for at in (sleeper.port, port):
        assert ask(at, "/sleep?level=1", {}) == 404
        assert ask(at, "/is_sleeping") == 404
        assert ask(at, "/collective_rpc", {"method": "x"}) == 404
        assert ask(at, "/v1/models") == ask(at, "/metrics") == 200
    key = sleeper.root / "profiles/stand/units/blue/server/control.key"
    assert key.stat().st_mode & 0o777 == 0o600
    found = sleeper.ask("sleeping.guarded", profile="stand", unit="blue")
    assert found == {"without_key": 404, "with_key": 200}
    said = (sleeper.root / "profiles/stand/units/blue/server/spec.json").read_text()
    assert key.read_text().strip() not in said + json.dumps(slot)


@pytest.mark.slow
def test_what_was_started_without_sleep_mode_is_stopped_instead(sleeper: ServedHost) -> None:
    sleeper.up()
    first = sleeper.unit("stand.blue")["release"]
    (sleeper.root / "profiles/stand/units/blue/server/control.key").unlink()
    second = sleeper.up(OTHER)
    assert second.outcome == "deployed", second.hosts[0].error
    (slept,) = steps(second, "sleep")
    assert not slept.evidence["asleep"]
    (sleeper.root / "profiles/stand/units/green/server/control.key").unlink()
    failed = sleeper.up(STALE)
    assert failed.outcome == "rolled-back" and failed.hosts[0].restored, failed.hosts[0]
    back = sleeper.unit("stand.green")
    assert back["state"] == "running" and back["release"] == second.hosts[0].release != first
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


def test_what_does_not_wake_is_started_again(sleeper: ServedHost) -> None:
    first = sleeper.up("serve.env.STAND_IN_FAULT=wake")
    pid = sleeper.unit("stand.blue")["pid"]
    failed = sleeper.up(STALE)
    assert failed.outcome == "rolled-back" and failed.hosts[0].restored, failed.hosts[0]
    back = sleeper.unit("stand.blue")
    assert back["pid"] != pid and back["release"] == first.hosts[0].release
    assert back["asleep"] is None
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


@pytest.mark.slow
def test_rollback_turns_back(sleeper: ServedHost) -> None:
    first = sleeper.up()
    sleeper.up(OTHER)
    back = sleeper.up(OTHER, playbook="rollback")
    assert (back.outcome, front(sleeper)["slot"]) == ("deployed", "blue"), back.hosts[0].error
    assert sleeper.unit("stand.blue")["release"] == first.hosts[0].release
    assert steps(back, "sleep")[0].evidence["unit"] == "green"


LINES = ("clean: started", "ready: started", "acceptance: started")


@pytest.mark.parametrize("line", some(LINES, ("ready: started",)))
def test_after_a_kill_the_next_run_goes_on(sleeper: ServedHost, line: str) -> None:
    sleeper.up()
    with sleeper.start("up", "--set", OTHER, stops_at=line) as run:
        run.told(line)
        run.kill()
    assert sleeper.unit("stand.blue")["asleep"]
    (host,) = status.survey(sleeper.profile())["hosts"]
    assert host["asleep"] and not host["healthy"]
    again = sleeper.up(OTHER)
    assert (again.outcome, front(sleeper)["slot"]) == ("deployed", "green"), again.hosts[0].error
    assert again.hosts[0].recovered_run
    assert sleeper.unit("stand.blue")["state"] == "stopped"
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


BACK = ("clean: started", "acceptance: started", "waking release")


@pytest.mark.parametrize("line", some(BACK, ("acceptance: started",)))
def test_after_a_kill_the_release_of_before_is_woken(sleeper: ServedHost, line: str) -> None:
    sleeper.up()
    pid = sleeper.unit("stand.blue")["pid"]
    with sleeper.start("up", "--set", STALE, stops_at=line) as run:
        run.told(line)
        run.kill()
    assert sleeper.unit("stand.blue")["asleep"]
    again = sleeper.up()
    assert again.exit_code == 0, again.hosts[0].error
    blue = sleeper.unit("stand.blue")
    assert (blue["pid"], blue["asleep"]) == (pid, None)
    assert sleeper.unit("stand.green")["state"] in ("stopped", "absent")
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


@pytest.mark.slow
def test_down_ends_what_sleeps(sleeper: ServedHost) -> None:
    sleeper.up()
    with sleeper.start("up", "--set", OTHER, stops_at="ready: started") as run:
        run.told("ready: started")
        run.kill()
    assert sleeper.up(playbook="down").exit_code == 0
    for name in ("stand.front", "stand.blue", "stand.green"):
        assert sleeper.unit(name)["state"] in ("stopped", "absent")
    assert sleeper.up().outcome == "deployed"


@pytest.mark.slow
def test_an_agent_that_is_killed_leaves_it_to_the_next_run(sleeper: ServedHost) -> None:
    sleeper.up()
    with sleeper.start("up", "--set", OTHER, stops_at="ready: started") as run:
        run.told("ready: started")
        (agent,) = processes.children(run.pid)
        os.kill(agent, signal.SIGKILL)
        run.go_on()
        run.output()
    assert sleeper.unit("stand.blue")["asleep"]
    again = sleeper.up(OTHER, lock_wait=300.0)
    assert again.outcome == "deployed", again.hosts[0].error
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


@pytest.mark.slow
def test_what_dies_in_its_sleep_is_not_restarted_but_started_again(sleeper: ServedHost) -> None:
    first = sleeper.up()
    pid = sleeper.unit("stand.blue")["pid"]
    with sleeper.start("up", "--set", STALE, "--json", stops_at="acceptance: started") as run:
        run.told("acceptance: started")
        os.kill(pid, signal.SIGKILL)
        wait_for("its end", lambda: sleeper.unit("stand.blue")["state"] == "failed")
        run.go_on()
        run.output()
    assert run.returncode == 10
    back = sleeper.unit("stand.blue")
    assert (back["state"], back["restarts"]) == ("running", 0)
    assert back["release"] == first.hosts[0].release and back["pid"] != pid
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200


@pytest.mark.slow
def test_a_failed_release_that_is_kept_leaves_it_asleep(sleeper: ServedHost) -> None:
    first = sleeper.up()
    kept = sleeper.up(STALE, keep_failed=True)
    assert kept.exit_code == 9, kept.hosts[0]
    assert sleeper.unit("stand.blue")["asleep"]
    assert front(sleeper)["leads"] == "green"
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200
    again = sleeper.up()
    assert again.exit_code == 0, again.hosts[0].error
    assert sleeper.unit("stand.blue")["release"] == first.hosts[0].release
    assert sleeper.unit("stand.green")["state"] == "stopped"


@pytest.mark.slow
def test_what_does_not_sleep_goes_on_serving(sleeper: ServedHost) -> None:
    sleeper.up("serve.env.STAND_IN_FAULT=sleep")
    pid = sleeper.unit("stand.blue")["pid"]
    with PollingClient(sleeper.port) as client:
        failed = sleeper.up(OTHER)
    error = failed.hosts[0].error
    assert failed.outcome == "rolled-back" and error is not None
    assert "it does not sleep: HTTP 500" in error.what
    assert sleeper.unit("stand.blue")["pid"] == pid and client.gaps == []
    assert sleeper.unit("stand.green")["state"] in ("absent", "stopped")
    assert ask(sleeper.port, "/v1/completions", {"model": "tiny", "prompt": "x"}) == 200
