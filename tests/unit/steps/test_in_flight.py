"""Requests in flight: counted at the door, guessed from gauges, or unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from deployctl import cancel
from deployctl.hosts.session import Session
from deployctl.steps.servers import in_flight
from tests.hosts.step_bench import deployment

TRACKS = {"argv": ["vllm", "serve", "m", "--enable-server-load-tracking"]}
BLIND = {"argv": ["vllm", "serve", "m"]}
SEVERAL = {"argv": [*TRACKS["argv"], "--api-server-count", "4"]}


def answer(body: str, status: int | None = 200) -> dict[str, Any]:
    return {"status": status, "body": body, "error": None}


@pytest.mark.parametrize(
    ("unit", "said", "count"),
    [
        (TRACKS, answer('{"server_load": 3}'), 3),
        (TRACKS, answer('{"server_load": 0}'), 0),
        (BLIND, answer('{"server_load": 0}'), None),
        (SEVERAL, answer('{"server_load": 0}'), None),
        (TRACKS, answer('{"server_load": -1}'), None),
        (TRACKS, answer('{"server_load": true}'), None),
        (TRACKS, answer('{"server_load": 1.0}'), None),
        (TRACKS, answer("[]"), None),
        (TRACKS, answer('{"server_load": 3}', 500), None),
        (TRACKS, answer("", None), None),
        (TRACKS, None, None),
        ({"state": "absent"}, answer('{"server_load": 0}'), None),
    ],
)
def test_what_is_counted_at_the_door(unit: Any, said: Any, count: int | None) -> None:
    """A server without the option answers 0 whatever it does."""
    assert in_flight.counted(unit, said) == count


class Answers:
    """A session whose server answers these one after the other, and the last for ever."""

    state = "running"

    def __init__(self, *said: dict[str, Any]) -> None:
        self.said, self.asked = list(said), list[str]()

    def call(self, op: str, **arguments: Any) -> Mapping[str, Any]:
        if "url" not in arguments:
            return {"state": self.state}
        self.asked.append(str(arguments["url"]).rpartition("/")[2])
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cancel, "sleep", lambda seconds: None)
    yield


def drained(unit: Any, within: float, *said: dict[str, Any]) -> tuple[Any, Answers]:
    session = Answers(*said)
    shown: list[int | None] = []
    left = in_flight.drain(cast(Session, session), deployment({}), unit, within, shown.append)
    return left, session


def loads(*counts: int) -> list[dict[str, Any]]:
    return [answer(f'{{"server_load": {count}}}') for count in counts]


def gauge(running: int) -> dict[str, Any]:
    return answer(f'vllm:num_requests_running{{engine="0"}} {running}\n')


def test_two_looks_must_find_none() -> None:
    left, session = drained(TRACKS, 60, *loads(1, 0, 1, 0, 0))
    assert left == 0 and session.asked == ["load"] * 5


def test_what_is_left_when_the_time_is_over() -> None:
    assert drained(TRACKS, -1, *loads(2))[0] == 2
    assert drained(TRACKS, -1, answer("", None))[0] is None


def test_gauges_end_the_waiting_and_prove_nothing() -> None:
    left, session = drained(BLIND, 60, gauge(1), gauge(0), gauge(0))
    assert left is None and session.asked == ["metrics"] * 3
    assert drained(BLIND, -1, gauge(2))[0] == 2
    assert drained(BLIND, -1, answer("# nothing"))[0] is None
    assert drained(BLIND, -1, answer('vllm:num_requests_running{a="} x\n'))[0] is None


def test_a_server_that_ended_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answers, "state", "exited")
    left, session = drained(TRACKS, 60, *loads(3), answer("", None))
    assert left is None and session.asked == ["load"] * 2
