"""A replica that hangs under load, behind the real vllm-router: back in service by itself, and at
most the streams under way are lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from deployctl.hosts.session import Call
from tests.hosts.served.many import needs_root
from tests.hosts.served.replicas import Replicas
from tests.hosts.test_units import until

pytestmark = [
    pytest.mark.skipif(needs_root(), reason="namespaces need root"),
    pytest.mark.slow,
]
WATCHED = "serve.liveness={interval: 1s, completion: 2s, failures: 2}"
RATE, SECONDS = 10.0, 0.5


def test_a_replica_that_hangs_comes_back_by_itself(tmp_path: Path) -> None:
    with Replicas(tmp_path, 2) as two:
        second = two.machines[1]

        def unit() -> dict[str, Any]:
            (found,) = second.ask(Call("units.state", profile="stand", unit="server"))
            return dict(found)

        def lives() -> bool:
            last = (unit()["liveness"] or {}).get("last") or {}
            return last.get("verdict") in ("alive", "busy")

        record = two.up(WATCHED)
        assert record.outcome == "deployed", [host.error for host in record.hosts]
        until("it is watched", lives)
        before = unit()
        with two.asking(RATE, SECONDS) as became:
            os.kill(before["pid"], signal.SIGSTOP)
            until("its supervisor has restarted it", lambda: unit()["restarts"] == 1 and lives())
            until("the router finds it healthy", lambda: two.workers() == two.all())
        after = unit()
        assert after["pid"] != before["pid"] and after["liveness"]["restarts"] == 1
        assert became["sent"] > 20 and not became["failed"], became
        # Those that it had begun to answer when it was stopped.
        assert len(became["cut"]) <= RATE * SECONDS, became
