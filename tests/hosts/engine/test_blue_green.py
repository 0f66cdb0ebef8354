"""Blue-green: the successor is proven beside what serves, and no client ever waits."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_playbook
from deployctl.engine import slots, status
from deployctl.engine.options import Options
from deployctl.engine.run import survey
from deployctl.engine.steps import STEPS
from tests.hosts.served.client import PollingClient
from tests.hosts.served.host import STALE, ServedHost, free_port

OTHER = "serve.env.WHICH=other"


@pytest.fixture
def slotted(served: ServedHost) -> ServedHost:
    """The same host with two slots."""
    text = served.profile_file.read_text("utf-8")
    blue, green = free_port(), free_port()
    switch = (
        "switch: {strategy: blue-green, drain: 20s, "
        f"blue: {{port: {blue}}}, green: {{port: {green}}}}}\n"
    )
    served.profile_file.write_text(text + switch, encoding="utf-8")
    return served


def ask_slowly(port: int, seconds: float) -> dict[str, Any]:
    body = json.dumps({"model": "tiny", "prompt": "x", "stand_in_seconds": seconds}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


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
    assert slotted.unit("stand")["release"] == slots.FRONT
    again = slotted.up(OTHER)
    assert again.outcome == "unchanged"
    up = load_playbook("up", frozenset(STEPS))
    ((idle, _),) = survey(slotted.profile(OTHER), up, Options())
    ((changed, _),) = survey(slotted.profile(), up, Options())
    assert idle.idle and changed.current == first.hosts[0].release
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
    second = slotted.up(OTHER)
    slow.join()
    assert answers and answers[0]["choices"]
    (switched,) = [s for s in second.hosts[0].steps if s.step == "switch"]
    assert switched.evidence["cut_off"] == 0


def test_rollback_turns_back(slotted: ServedHost) -> None:
    first = slotted.up()
    slotted.up(OTHER)
    with PollingClient(slotted.port) as client:
        back = slotted.up(OTHER, playbook="rollback")
    assert (back.outcome, live(slotted)) == ("deployed", "blue")
    assert slotted.unit("stand.blue")["release"] == first.hosts[0].release
    assert client.gaps == []


def test_from_recreate_to_slots_costs_the_front_alone(served: ServedHost) -> None:
    served.up()
    blue, green = free_port(), free_port()
    slots_of = f"{{strategy: blue-green, blue: {{port: {blue}}}, green: {{port: {green}}}}}"
    with PollingClient(served.port) as client:
        moved = served.up(f"switch={slots_of}")
    assert moved.outcome == "deployed", moved.hosts[0].error
    assert len(client.gaps) == len(moved.hosts[0].gaps) == 1
    assert client.gaps[0] <= moved.hosts[0].gaps[0] + 0.1


def test_down_ends_all_of_it(slotted: ServedHost) -> None:
    slotted.up()
    down = slotted.up(playbook="down")
    assert down.exit_code == 0
    for name in ("stand", "stand.blue", "stand.green"):
        assert slotted.unit(name)["state"] in ("stopped", "absent")
    assert slotted.up().outcome == "deployed"
