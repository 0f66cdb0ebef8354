"""A stop while requests are in flight: they end whole, or are counted as cut off."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from deployctl.agent.wire.answers import Requests
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.steps.identity import UnitId
from deployctl.steps.servers.stopping import stop_named
from deployctl.vllm.client import requests
from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.outcome import RequestFailed
from tests.hosts.test_units import until
from tests.vllm.conftest import Demo, Served
from tests.vllm.test_hung_engine import stopped

DEMO: UnitId = {"profile": "demo", "unit": "server"}

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

AT_ONCE = 3
GRACE, LONG = 20.0, 900.0
"""Seconds: the demo's, of which its server drains for 15, and more than requests can take."""


def stop_with_requests(
    demo: Demo, url: str, tokens: int, grace: float, hung: bool
) -> tuple[list[Answer | RequestFailed], Requests]:
    """Stop the server while some requests of so many tokens are in flight: how they ended, and how
    many the stop counted."""
    body = requests.chat("tiny", requests.user("Count from 1 to 400."), tokens)
    body = {**body, "ignore_eos": True}
    ends: list[Answer | RequestFailed] = []

    def ask() -> None:
        with Client(url) as client:
            ends.extend(client.send_all([Request(body, 900.0)] * AT_ONCE, AT_ONCE))

    asking = threading.Thread(target=ask)
    with (
        Session(LocalTransport("here"), root=str(demo.root)) as session,
        Client(url) as client,
        ExitStack() as stack,
    ):
        if hung:
            stack.enter_context(stopped(demo))
        session.call("units.state", **DEMO)
        asking.start()
        until("requests in flight", lambda: client.in_flight() == AT_ONCE, 60)
        found = stop_named(session, DEMO, grace)
    asking.join()
    assert found["left"] == [] and found["state"] == "stopped"
    return ends, found["requests"]


def test_requests_end_whole_or_are_counted(deployed: Demo, served: Served) -> None:
    try:
        # With the engine stopped none of them ends, however fast the machine is.
        ends, found = stop_with_requests(deployed, served.url, 40, GRACE, hung=True)
        assert found == {"in_flight": AT_ONCE, "cut_off": AT_ONCE}
        assert [type(end) for end in ends] == [RequestFailed] * AT_ONCE
        # And given the time they all end, however slow it is.
        assert deployed.up("--set", f"serve.stop_grace={LONG:.0f}s").code == 0
        ends, found = stop_with_requests(deployed, served.url, 200, LONG, hung=False)
        assert [getattr(end, "completion_tokens", end) for end in ends] == [200] * AT_ONCE
        assert (found["in_flight"] or 0) > 0 and found["cut_off"] == 0
    finally:
        assert deployed.up().code == 0
