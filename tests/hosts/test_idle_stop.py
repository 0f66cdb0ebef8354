"""A server that has let its requests end is not waited for; one that has not is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.hosts.session import Session
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.processes import is_alive
from tests.hosts.test_units import UNIT, local, start, state, until

SERVER = """
import http.server, os, signal, sys, threading
port, load = int(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"server_load": %s}' % open(load, "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("listens", flush=True)
server.serve_forever()
"""
GRACE = 60.0


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local(tmp_path) as session:
        yield session
        session.call("units.stop", **UNIT, grace=1)


def stop(session: Session, port: int) -> tuple[float, dict[str, int]]:
    began = time.monotonic()
    load = f"http://127.0.0.1:{port}/load"
    stopped = session.call("units.stop", **UNIT, grace=GRACE, load=load)
    assert stopped["state"] == "stopped" and not stopped["left"]
    return time.monotonic() - began, stopped["requests"]


def serve(session: Session, load: Path, count: int, grace: float) -> int:
    """A server that never ends by itself, and says that so many requests are in flight."""
    load.write_text(str(count))
    port = free_port()
    drains = ["--enable-server-load-tracking", "--shutdown-timeout", "55"]
    start(session, argv=[sys.executable, "-c", SERVER, str(port), str(load), *drains], grace=grace)
    until("its port", lambda: "listens" in session.call("units.log", **UNIT)["text"])
    return port


def test_it_is_ended_once_nothing_is_in_flight(session: Session, tmp_path: Path) -> None:
    port = serve(session, tmp_path / "load", 0, GRACE)
    pid = state(session)["pid"]
    seconds, requests = stop(session, port)
    assert seconds < GRACE / 2 and not is_alive(pid)
    assert requests == {"in_flight": 0, "cut_off": 0}
    # It was asked first.
    assert "asked to end" in session.call("units.log", **UNIT)["text"]


def test_what_is_in_flight_has_the_whole_grace(session: Session, tmp_path: Path) -> None:
    port = serve(session, tmp_path / "load", 1, 4.0)
    seconds, requests = stop(session, port)
    assert seconds >= 4.0 and requests == {"in_flight": 1, "cut_off": 1}
