"""A real engine that hangs is found by its supervisor, killed and restarted; a busy one is not."""

from __future__ import annotations

import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.vllm.client.client import Client
from tests.hosts.lab.processes import is_alive
from tests.hosts.test_units import until
from tests.vllm.conftest import Demo, Served
from tests.vllm.test_hung_engine import ENGINE, health

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

WATCHED = "serve.liveness={interval: 1s, completion: 15s, failures: 2}"
HASTY = "serve.liveness={interval: 1s, completion: 1s, failures: 1}"


@pytest.fixture
def redeployed(deployed: Demo) -> Iterator[Demo]:
    """The demo, whose server the test restarts with another profile; brought back at the end."""
    yield deployed
    assert deployed.run("run", "redeploy", "--json").code == 0


def watched(demo: Demo, how: str) -> None:
    ended = demo.run("run", "redeploy", "--json", "--set", how)
    assert ended.code == 0, f"{ended.out}\n{ended.err}"


def unit(demo: Demo) -> dict[str, Any]:
    with Session(LocalTransport("here"), root=str(demo.root)) as session:
        found: dict[str, Any] = session.call("units.state", profile="demo", unit="server")
        return found


def verdict(found: dict[str, Any]) -> str | None:
    last = (found["liveness"] or {}).get("last") or {}
    return last.get("verdict")


def completed(url: str) -> str:
    """How a request of a client ends: its status, or the error."""
    body = b'{"model": "tiny", "prompt": "1", "max_tokens": 4}'
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/completions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return str(answer.status)
    except OSError as error:
        return type(error).__name__


def test_a_hung_engine_is_restarted(redeployed: Demo, served: Served) -> None:
    watched(redeployed, WATCHED)
    until("it is seen alive", lambda: verdict(unit(redeployed)) == "alive")
    before = unit(redeployed)
    (engine,) = [member["pid"] for member in before["members"] if member["comm"] == ENGINE]
    os.kill(engine, signal.SIGSTOP)
    ended: list[str] = []
    client = threading.Thread(target=lambda: ended.append(completed(served.url)))
    client.start()
    assert health(served.url) == 200

    def again() -> bool:
        found = unit(redeployed)
        return found["restarts"] == 1 and verdict(found) == "alive"

    until("it lives again, by itself", again, 300)
    client.join(30)
    assert ended and ended[0] != "200", "a request that waited is cut off, not left hanging"
    assert not is_alive(engine) and not is_alive(before["pid"])
    status = redeployed.run("status", "--json").document["hosts"][0]
    assert (status["generates"], status["liveness"]["restarts"]) == (True, 1)


def test_a_busy_engine_is_not_restarted(redeployed: Demo, served: Served) -> None:
    watched(redeployed, HASTY)
    until("it is watched", lambda: verdict(unit(redeployed)) == "alive")
    pid, over = unit(redeployed)["pid"], threading.Event()

    def work() -> None:
        while not over.is_set():
            completed(served.url)

    clients = [threading.Thread(target=work) for _ in range(16)]
    for client in clients:
        client.start()
    try:
        seen: set[float] = set()
        while len(seen) < 8:
            found = unit(redeployed)
            assert (found["pid"], found["restarts"]) == (pid, 0)
            seen.add(found["liveness"]["last"]["time"])
        assert verdict(found) in ("busy", "alive")
    finally:
        over.set()
        for client in clients:
            client.join()
    with Client(served.url) as one:
        until("nothing is in flight", lambda: one.in_flight() == 0, 60)
