"""Whether hosts reach each other, over the loopback."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from deployctl.agent.core.interface import Call
from deployctl.agent.network import ranks
from tests.hosts.lab.ports import free_port

HERE = "127.0.0.1"


def call(tmp_path: Path) -> Call:
    return Call(str(tmp_path), lambda event: None)


def test_an_address_has_an_interface_or_none(tmp_path: Path) -> None:
    found = ranks.place(call(tmp_path), HERE)
    assert found["interface"] == "lo" and f"lo {HERE}" in found["interfaces"]
    assert ranks.place(call(tmp_path), HERE, "eth9")["interface"] is None
    assert ranks.place(call(tmp_path), "192.0.2.1")["interface"] is None


def test_what_listens_is_reached_and_measured_and_what_does_not_is_named(tmp_path: Path) -> None:
    said: list[Any] = []
    ready = threading.Event()

    def emit(event: dict[str, Any]) -> None:
        said.append(event)
        ready.set()

    listening = Call(str(tmp_path), emit)
    work = threading.Thread(target=ranks.answer, args=(listening, HERE, [0, 0], "word"))
    work.start()
    try:
        assert ready.wait(60)
        first, second = said[0]["ports"]
        targets = [
            [HERE, first, "word", True],
            [HERE, second, "WORD", False],
            [HERE, free_port(), "word", False],
        ]
        there, strange, closed = ranks.reach(call(tmp_path), targets, HERE)
    finally:
        listening.inbox.put("end")
        work.join()
    assert there["error"] is None and there["rate"] is not None and there["rate"] > 0
    assert strange["error"] == "something else answers there" and strange["rate"] is None
    assert closed["error"] == "Connection refused"
