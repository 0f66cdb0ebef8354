"""Blue-green: the successor is proven beside what serves, and no client ever waits."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import urllib.request
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployctl.agent.wire.answers import UnitState
from deployctl.config.loader import load_playbook
from deployctl.engine.inspect import drafters, status
from deployctl.engine.inspect.compare import compare
from deployctl.engine.run import front
from deployctl.engine.run.coordinator import survey
from deployctl.engine.run.options import Options
from deployctl.errors import UsageError
from deployctl.hosts.session import Session
from deployctl.report.serving import status_lines
from deployctl.steps import registry
from deployctl.steps.identity import FRONT
from deployctl.steps.interface import Deployment
from deployctl.steps.servers import in_flight
from deployctl.vllm.counters import metrics
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port
from tests.hosts.served.client import PollingClient
from tests.hosts.served.host import STALE, ServedHost

OTHER = "serve.env.WHICH=other"
METRICS = "http://127.0.0.1:{}/metrics"
TRACKS = "serve.args={enable-server-load-tracking: true}"


@pytest.fixture
def slotted(served: ServedHost) -> ServedHost:
    """The same host with two slots."""
    served.blue_green(free_port(), free_port())
    return served


def ask_slowly(port: int, seconds: float) -> dict[str, Any]:
    body = json.dumps({"model": "tiny", "prompt": "x", "stand_in_seconds": seconds}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=300) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def running(host: ServedHost, slot: str = "blue") -> int | None:
    """How many requests a slot is at work on."""
    port = getattr(host.profile().switch, slot).port
    return metrics.in_flight(
        host.ask("network.http", method="GET", url=METRICS.format(port))["body"]
    )


def at_the_door(host: ServedHost, slot: str = "blue") -> int:
    """How many requests a slot counts at its door."""
    port = getattr(host.profile().switch, slot).port
    answer = host.ask("network.http", method="GET", url=f"http://127.0.0.1:{port}/load")
    return int(json.loads(answer["body"])["server_load"])


def live(host: ServedHost) -> str:
    found = json.loads(Path(host.root / "profiles/stand/front.json").read_text("utf-8"))
    return str(found["slot"])


def test_a_redeploy_without_a_gap(slotted: ServedHost) -> None:
    first = slotted.up()
    assert (first.outcome, live(slotted)) == ("deployed", "blue")
    with PollingClient(slotted.port) as client:
        second = slotted.up(OTHER)
    assert (second.outcome, live(slotted)) == ("deployed", "green")
    assert client.gaps == [] and client.answers > 10
    assert second.hosts[0].without_service is None
    assert slotted.unit("stand.blue")["state"] == "stopped"
    assert slotted.unit("stand.front")["release"] == FRONT
    again = slotted.up(OTHER)
    assert again.outcome == "unchanged"
    up = load_playbook("up", registry.options())
    (idle,) = survey(slotted.profile(OTHER), up, Options())
    (changed,) = survey(slotted.profile(), up, Options())
    assert idle["plan"].idle and changed["plan"].current == first.hosts[0].release
    (host,) = status.survey(slotted.profile(OTHER))["hosts"]
    assert (host["healthy"], host["unit"]) == (True, "stand.green")


def test_what_fails_is_never_seen_by_a_client(slotted: ServedHost) -> None:
    slotted.up()
    pid = slotted.unit("stand.blue")["pid"]
    with PollingClient(slotted.port) as client:
        failed = slotted.up(STALE)
    assert (failed.outcome, failed.exit_code) == ("rolled-back", 10)
    assert client.gaps == []
    assert (live(slotted), slotted.unit("stand.blue")["pid"]) == ("blue", pid)
    assert slotted.unit("stand.green")["state"] == "stopped"
    assert slotted.ledger()[-1]["outcome"] == "rolled-back"


def test_unattended_a_known_failure_is_not_tried_again(slotted: ServedHost) -> None:
    slotted.up()
    assert slotted.up(STALE, only_if_changed=True).outcome == "rolled-back"
    pid = slotted.unit("stand.blue")["pid"]
    again = slotted.up(STALE, only_if_changed=True)
    assert (again.outcome, live(slotted)) == ("unchanged", "blue")
    assert slotted.unit("stand.blue")["pid"] == pid
    assert slotted.unit("stand.green")["state"] == "stopped"


def test_started_anew_beside_what_serves(slotted: ServedHost) -> None:
    slotted.up()
    with PollingClient(slotted.port) as client:
        anew = slotted.up(playbook="redeploy")
    assert (anew.outcome, live(slotted)) == ("deployed", "green")
    assert client.gaps == []


def test_requests_in_flight_are_drained(slotted: ServedHost) -> None:
    slotted.up("serve.env.STAND_IN_START=0.1")
    answers: list[dict[str, Any]] = []
    slow = threading.Thread(target=lambda: answers.append(ask_slowly(slotted.port, 12)))
    slow.start()
    wait_for("the request", lambda: running(slotted) == 1)
    second = slotted.up(OTHER)
    slow.join()
    assert answers and answers[0]["choices"]
    (switched,) = [s for s in second.hosts[0].steps if s.step == "switch"]
    # Its gauges say 0: that is no proof, and a stop without a count cannot say what it cut off.
    assert switched.evidence["cut_off"] is None


def test_requests_are_counted_at_the_door_where_gauges_read_nothing(slotted: ServedHost) -> None:
    slotted.up(TRACKS, "serve.env.STAND_IN_FAULT=gauges")
    answers: list[dict[str, Any]] = []
    slow = threading.Thread(target=lambda: answers.append(ask_slowly(slotted.port, 6)))
    slow.start()
    wait_for("the request", lambda: at_the_door(slotted) == 1)
    assert running(slotted) == 0
    second = slotted.up(TRACKS, OTHER)
    slow.join()
    assert answers and answers[0]["choices"]
    (switched,) = [s for s in second.hosts[0].steps if s.step == "switch"]
    assert switched.evidence["cut_off"] == 0
    assert slotted.ledger()[-1]["cut_off"] == 0


def test_what_does_not_end_in_time_is_counted_as_cut_off(slotted: ServedHost) -> None:
    first = ("switch.drain=1s", TRACKS)
    slotted.up(*first)
    ended = threading.Event()

    def never_answered() -> None:
        with pytest.raises(OSError):
            ask_slowly(slotted.port, 600)
        ended.set()

    threading.Thread(target=never_answered, daemon=True).start()
    wait_for("the request", lambda: at_the_door(slotted) == 1)
    second = slotted.up(*first, OTHER)
    assert second.outcome == "deployed" and ended.wait(60)
    assert slotted.ledger()[-1]["cut_off"] == 1
    lines = list(status_lines(status.survey(slotted.profile(*first, OTHER))))
    assert any("1 request cut off" in line for line in lines)


def test_a_request_that_comes_late_by_an_open_connection_is_drained_too(
    slotted: ServedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As when the front was at work on it while it was turned."""
    slotted.up("switch.drain=10m")
    seen = tmp_path / "seen"
    asked = {"model": "tiny", "prompt": "x", "stand_in_until": str(seen)}
    body = json.dumps(asked).encode()
    looks: list[int | None] = []
    late = HTTPConnection("127.0.0.1", slotted.port, timeout=300)
    late.request("GET", "/health")
    assert late.getresponse().read() == b"", "the front has led it to the first slot"

    really = in_flight._by_gauges

    def look(session: Session, wanted: Deployment, unit: UnitState) -> int | None:
        looks.append(really(session, wanted, unit))
        if len(looks) == 1:
            late.request("POST", "/v1/completions", body)
            wait_for("the request", lambda: running(slotted) == 1)
        elif looks[-1]:
            seen.touch()
        return looks[-1]

    monkeypatch.setattr(in_flight, "_by_gauges", look)
    second = slotted.up("switch.drain=10m", OTHER)
    assert second.outcome == "deployed" and looks[:2] == [0, 1]
    assert json.loads(late.getresponse().read())["choices"]
    late.close()


def test_rollback_turns_back(slotted: ServedHost) -> None:
    first = slotted.up()
    slotted.up(OTHER)
    with PollingClient(slotted.port) as client:
        back = slotted.up(OTHER, playbook="rollback")
    assert (back.outcome, live(slotted)) == ("deployed", "blue")
    assert slotted.unit("stand.blue")["release"] == first.hosts[0].release
    assert client.gaps == []


def test_from_recreate_to_slots_costs_the_front_alone(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.up()
    blue, green = free_port(), free_port()
    slots_of = f"{{strategy: blue-green, blue: {{port: {blue}}}, green: {{port: {green}}}}}"
    with PollingClient(served.port) as client:
        monkeypatch.setattr(front, "start_front", client.after(front.start_front))
        moved = served.up(f"switch={slots_of}")
    assert moved.outcome == "deployed", moved.hosts[0].error
    assert len(client.gaps) == len(moved.hosts[0].outages) == 1
    assert client.gaps[0] <= moved.hosts[0].outages[0]


def test_down_ends_all_of_it(slotted: ServedHost) -> None:
    slotted.up()
    down = slotted.up(playbook="down")
    assert down.exit_code == 0
    for name in ("stand", "stand.front", "stand.blue", "stand.green"):
        assert slotted.unit(name)["state"] in ("stopped", "absent")
    assert slotted.up().outcome == "deployed"


def test_back_to_recreate_leaves_nothing_in_a_slot(slotted: ServedHost) -> None:
    slotted.up()
    pid = slotted.unit("stand.blue")["pid"]
    text = slotted.profile_file.read_text("utf-8").replace(
        "strategy: blue-green", "strategy: recreate"
    )
    slotted.profile_file.write_text(text, encoding="utf-8")
    refused = slotted.up().hosts[0].error
    assert refused is not None and refused.exit_code == 6
    assert f"stand.blue still runs, pid {pid}" in refused.why
    assert "deployctl down --profile stand" in refused.why
    assert ask_slowly(slotted.port, 0)["choices"], "what serves was not touched"
    down = slotted.up(playbook="down")
    assert down.exit_code == 0 and slotted.unit("stand.blue")["state"] == "stopped"
    assert slotted.up().outcome == "deployed"


def test_the_front_follows_its_port(slotted: ServedHost) -> None:
    slotted.up()
    pid, other = slotted.unit("stand.blue")["pid"], free_port()
    with socket.create_server(("127.0.0.1", other)):
        held = slotted.up(f"serve.port={other}").hosts[0].error
        assert held is not None and f"port {other}" in held.what and str(os.getpid()) in held.what
        assert ask_slowly(slotted.port, 0)["choices"], "what serves was not touched"
    moved = slotted.up(f"serve.port={other}")
    assert (moved.outcome, live(slotted)) == ("changed", "blue")
    assert ask_slowly(other, 0)["choices"]
    assert slotted.unit("stand.blue")["pid"] == pid
    assert slotted.up(f"serve.port={other}").outcome == "unchanged"


def test_its_releases_and_drafter_are_found_by_the_profiles_name(slotted: ServedHost) -> None:
    first = slotted.up().hosts[0].release
    second = slotted.up(OTHER).hosts[0].release
    profile = slotted.profile(OTHER)
    (host,) = compare(profile, "previous", "current")["hosts"]
    assert (host["old"], host["new"]) == (first, second)
    (used,) = drafters.on_hosts(profile)
    assert f"/stand/units/green/releases/{second}/" in used.path and not used.differences()
    (tried,) = slotted.up(OTHER, skip=frozenset({"drafter"})).hosts
    assert tried.error is not None
    assert tried.error.next.endswith(f"deployctl diff current {tried.release} --profile stand")
    (host,) = compare(profile, "current", str(tried.release))["hosts"]
    assert (host["old"], host["new"]) == (second, tried.release)
    slotted.ask("files.remove_tree", path="@/profiles/stand/units/green/releases")
    with pytest.raises(UsageError) as nothing:
        drafters.on_hosts(profile)
    assert nothing.value.next.endswith("deployctl up --profile stand")


def test_a_front_that_is_gone_is_seen_and_comes_back(slotted: ServedHost) -> None:
    slotted.up()
    (host,) = status.survey(slotted.profile())["hosts"]
    assert host["healthy"] and host["front"] == {"state": "running", "listening": True}
    slotted.ask("units.stop", profile="stand", unit="front", grace=0.1)
    (host,) = status.survey(slotted.profile())["hosts"]
    assert not host["healthy"]
    assert any("front" in line for line in status_lines({"hosts": [host]}))
    assert slotted.up().outcome == "changed"
    assert ask_slowly(slotted.port, 0)["choices"]


def test_a_dead_slot_is_not_called_restored(slotted: ServedHost) -> None:
    slotted.up()
    green = slotted.profile().switch.green
    assert green is not None
    with socket.create_server(("127.0.0.1", green.port)):
        staged = slotted.up(OTHER)
    assert (staged.outcome, staged.exit_code) == ("failed", 6), "nothing was switched"
    slotted.ask("units.stop", profile="stand", unit="blue", grace=0.1)
    failed = slotted.up(STALE)
    assert (failed.outcome, failed.exit_code) == ("failed", 9)
    again = slotted.up()
    assert again.outcome == "deployed", "the dead slot is started again"


def test_an_interrupt_while_draining_says_who_serves(slotted: ServedHost, tmp_path: Path) -> None:
    slotted.up()
    after = [
        {"run": ["cp", str(slotted.root / "profiles/stand/front.json"), str(tmp_path / "last")]}
    ]
    steps = ["fetch", "drafter", "clean", "launch", "ready"]
    playbook = tmp_path / "told.yaml"
    playbook.write_text(yaml.safe_dump({"name": "told", "steps": steps, "after": after}), "utf-8")

    def ask() -> None:
        with suppress(OSError):  # its slot is stopped in the end
            ask_slowly(slotted.port, 100)

    threading.Thread(target=ask, daemon=True).start()
    wait_for("the request", lambda: running(slotted) == 1)
    argv = ["run", "-p", str(slotted.profile_file), str(playbook), "--set", OTHER, "--json"]
    with slotted.start(*argv, stops_at="switch: drain") as run:
        run.told("switch: drain")
        run.go_on(signal.SIGINT)
        output = run.output()
    (host,) = json.loads(output)["hosts"]
    assert run.returncode == 130
    assert "the front leads to slot green" in host["error"]["why"]
    assert host["error"]["why"].count(" runs, pid ") == 2
    assert slotted.ledger()[-1]["outcome"] == "interrupted"
    assert json.loads((tmp_path / "last").read_text("utf-8"))["slot"] == "green", "hooks come last"
    assert slotted.up(OTHER).exit_code == 0
    assert slotted.unit("stand.blue")["state"] == "stopped"
