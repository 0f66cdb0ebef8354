"""What a server that is gone has left behind is in its status."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deployctl.engine.inspect import status
from deployctl.report.serving import status_lines
from deployctl.steps.interface import Answers, Unknown
from tests.unit.steps.test_clean_plan import UUIDS, gpus, look, process, wanted
from tests.unit.whole import whole_answers

LOST: dict[str, Any] = {
    "state": "lost",
    "pid": 5,
    "start": 50,
    "release": "r1",
    "rc": None,
    "members": [{"pid": 6, "start": 60}, {"pid": 7, "start": 70}],
}
CORE = process(6, comm="VLLM::EngineCor", command=["VLLM::EngineCore"], devices=["nvidia2"])
TRACKER = process(7, comm="python3", command=["python3", "-c", "tracker"])


def answers(**changes: Any) -> Answers:
    releases: dict[str, Any] = {
        "current": "r1",
        "previous": None,
        "releases": {},
        "environments": {},
        "broken": {},
    }
    given = {
        "unit": LOST,
        "releases": releases,
        "holders": look(CORE, TRACKER),
        "gpus": gpus((6, 2, 43533)),
        **changes,
    }
    return Answers(whole_answers(given))


def test_the_processes_of_a_lost_server_are_told_with_their_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found: "lost", "release none", while two of its processes held 43.5 GB."""
    known = answers()
    monkeypatch.setattr(status, "ask", lambda connected, asked: (known, []))
    found = status.left(wanted(), SimpleNamespace())  # type: ignore[arg-type]
    assert len(found["left"]) == 2 and found["left_unknown"] is None
    assert "PID 6" in found["left"][0] and "43533 MiB" in found["left"][0]
    host = {**status._host(known), **found, "host": "h", "unit": "prod"}
    lines = list(status_lines({"hosts": [host]}))
    assert "  release   none; r1 is lost (current r1, previous none)" in lines
    assert sum(line.startswith("  left ") for line in lines) == 2
    assert UUIDS[2] not in "".join(lines)


def test_what_cannot_be_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known = answers(holders=Unknown("lost", "the node does not answer"))
    monkeypatch.setattr(status, "ask", lambda connected, asked: (known, []))
    found = status.left(wanted(), SimpleNamespace())  # type: ignore[arg-type]
    assert found["left_unknown"] == "holders: the node does not answer"
