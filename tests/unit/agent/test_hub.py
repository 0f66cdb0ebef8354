"""A hub that is none: whatever it says instead, it is not reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from deployctl.agent.build import sources
from deployctl.agent.core.interface import Call
from deployctl.agent.store import hub


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(str(tmp_path), lambda event: None)


@pytest.fixture
def no_http(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a port where something else listens."""
    monkeypatch.setattr(hub, "TIMEOUT", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_something_else_listens_there(call: Call, no_http: str) -> None:
    error = hub.survey(call, "a/b", endpoint=no_http)["error"]
    assert error == {"kind": "unreachable", "message": f"{no_http}: SSH-2.0-OpenSSH"}


def test_a_repository_that_no_url_can_hold(call: Call, no_http: str) -> None:
    error = hub.survey(call, "a b/c", endpoint=no_http)["error"]
    assert error is not None and error["kind"] == "unreachable"


def test_the_next_place_is_asked(call: Call, no_http: str) -> None:
    found = sources.first_found(call, [f"{no_http}/x y", f"{no_http}/z"], timeout=60)
    assert found["url"] is None and found["tried"][f"{no_http}/z"] == "SSH-2.0-OpenSSH"
