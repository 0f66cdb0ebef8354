"""Requests that a stop cuts off are counted, whoever stops: a rollback, or `down`."""

from __future__ import annotations

import threading

import pytest

from deployctl.agent.wire.answers import UnitStopped
from deployctl.engine.inspect import status
from deployctl.engine.run import switch
from deployctl.hosts.session import Session
from deployctl.report.serving import status_lines
from deployctl.steps.interface import Deployment
from deployctl.steps.servers import stopping
from tests.hosts.engine.test_blue_green import TRACKS, ask_slowly
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.served.host import STALE, ServedHost


def busy(served: ServedHost) -> None:
    """Leave a request that is never answered in flight."""

    def ask() -> None:
        with pytest.raises(OSError):
            ask_slowly(served.port, 600)

    threading.Thread(target=ask, daemon=True).start()
    url = f"http://127.0.0.1:{served.port}/load"
    counted = '{"server_load": 1}'
    wait_for(
        "the request",
        lambda: served.ask("network.http", method="GET", url=url)["body"] == counted,
    )


def test_rollback_and_down(served: ServedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    served.up(TRACKS)
    really = stopping.stop_unit

    def stop(session: Session, wanted: Deployment, spare: bool = False) -> UnitStopped:
        busy(served)
        return really(session, wanted, spare)

    monkeypatch.setattr(switch, "stop_unit", stop)
    failed = served.up(TRACKS, STALE)
    assert failed.outcome == "rolled-back"
    assert served.ledger()[-1]["cut_off"] == 1
    lines = status_lines(status.survey(served.profile(TRACKS)))
    assert any("rolled-back, 1 request cut off" in line for line in lines)
    busy(served)
    # The port in the profile is not the one that the server listens on.
    down = served.up("serve.port=1", playbook="down")
    assert down.exit_code == 0 and served.ledger()[-1]["cut_off"] == 1
