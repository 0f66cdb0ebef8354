"""An engine that hangs behind a live API server: only a completion shows it."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.vllm.client import load
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.prompt_sets import Prompt
from deployctl.vllm.counters.metrics import in_flight
from tests.hosts.test_units import until
from tests.vllm.conftest import Demo, Served

pytestmark = pytest.mark.vllm

ENGINE = "VLLM::EngineCor"


@contextmanager
def stopped(demo: Demo) -> Iterator[None]:
    """The demo's engine, stopped for as long as this is entered."""
    with Session(LocalTransport("here"), root=str(demo.root)) as session:
        members = session.call("units.state", profile="demo", unit="server")["members"]
    (engine,) = [member["pid"] for member in members if member["comm"] == ENGINE]
    os.kill(engine, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGCONT)


def health(url: str) -> int:
    with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:
        return int(answer.status)


def status_of(demo: Demo) -> tuple[int, dict[str, Any]]:
    ended = demo.run("status", "--json")
    (host,) = ended.document["hosts"]
    return ended.code, host


def test_health_and_gauges_are_fine_and_status_and_bench_are_not(
    deployed: Demo, served: Served
) -> None:
    short = load.Load("tiny", (Prompt("Count from 1 to 9."),), (2, 4), 2, 8, 5.0)
    with stopped(deployed), Client(served.url) as client:
        code, host = status_of(deployed)
        assert (host["health"]["status"], host["state"]) == (200, "running")
        assert (host["generates"], host["healthy"]) == (False, False)
        assert "no completion" in host["generates_why"]
        assert code != 0
        until("those that gave up are gone", lambda: client.in_flight() == 0, 60)
        speeds = load.run(client, short, lambda *level: None)
        assert speeds.ended is not None and len(speeds.levels) == 1
        assert (speeds.ended.kind, speeds.levels[0]["failed"]) == ("timeout", 2)
        assert (health(served.url), in_flight(client.metrics())) == (200, 0)
    with Client(served.url) as client:
        until("it goes on", lambda: client.models() and status_of(deployed)[0] == 0, 120)
        until("nothing is in flight", lambda: client.in_flight() == 0, 60)
