"""Load and its figures, and answers compared with and without speculation."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.steps.bench import bench_lines, evidence_of
from deployctl.steps.servers.plain_server import at_port, without_speculation
from deployctl.vllm.acceptance.lossless import compare, first_difference
from deployctl.vllm.client import load
from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.prompt_sets import Prompt
from tests.unit.vllm.loopback import events, respond, serving, stream, until_closed


def answer(**given: Any) -> Answer:
    fields: dict[str, Any] = {
        "model": "m",
        "content": "abc",
        "reasoning": None,
        "tool_calls": (),
        "finish_reason": "stop",
        "prompt_tokens": 3,
        "completion_tokens": 5,
        "seconds": 2.5,
    }
    return Answer(**fields | given)


HELD = 0.02
"""Seconds for which a request waits, so that one too many at once is seen."""


class TalkingStandIn:
    """Streams four tokens, counts how many requests wait at once, fails every `broken`th."""

    def __init__(self, broken: int = 0) -> None:
        self.broken = broken
        self.waiting = self.most = self.asked = 0
        self._lock = threading.Lock()

    def behave(self, connection: socket.socket, request: bytes) -> None:
        if not request.startswith(b"POST /v1/chat"):
            respond("404 Not Found", b"{}")(connection, request)
            return
        with self._lock:
            self.asked += 1
            number = self.asked
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        time.sleep(HELD)
        # Before the answer: with its end the client may ask the next before we come to count.
        with self._lock:
            self.waiting -= 1
        if self.broken and number % self.broken == 0:
            respond("503 Service Unavailable", b"full")(connection, request)
            return
        words = [{"choices": [{"delta": {"content": word}}]} for word in "abcd"]
        end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 4}}
        stream(*events(*words, end, usage))(connection, request)


def asked(concurrencies: tuple[int, ...], requests: int) -> load.Load:
    return load.Load("m", (Prompt("x"), Prompt("y")), concurrencies, requests, 10, 60.0)


def test_every_level_asks_all_prompts_and_no_more_at_once_than_it_says() -> None:
    server = TalkingStandIn()
    told: list[tuple[int, int]] = []
    with serving(server.behave) as url, Client(url) as client:
        levels = load.run(client, asked((1, 3), 6), lambda *level: told.append(level)).levels
    assert told == [(1, 6), (3, 6)]
    assert server.asked == sum(6 * (len(level["warm_up"]) + 1) for level in levels)
    assert server.most <= 3
    for level in levels:
        assert (level["tokens"], level["failed"], level["requests"]) == (24, 0, 6)
        assert level["tokens_per_second"] == pytest.approx(24 / level["seconds"])
        assert level["mean_acceptance_length"] is None
        assert level["first_token"]["p50"] > 0


def test_failed_requests_are_counted_and_said() -> None:
    with serving(TalkingStandIn(broken=3).behave) as url, Client(url) as client:
        (level,) = load.run(client, asked((2,), 6), lambda *level: None).levels
    assert level["failed"] == 2
    assert "503" in level["failures"][0]
    assert level["tokens"] == 16


class ClockStandIn:
    """A client whose rounds take as long as they are said to, on a clock of its own."""

    def __init__(self, rounds: dict[int, list[float]]) -> None:
        self.rounds = rounds
        self.now = 0.0

    def in_flight(self) -> None:
        return None

    def send_all(self, bodies: list[Any], concurrency: int, hopeless: Any) -> list[Answer]:
        self.now += self.rounds[concurrency].pop(0)
        return [answer(completion_tokens=10) for _ in bodies]


@pytest.mark.parametrize(
    ("seconds", "warm_up", "speed", "settled"),
    [
        # 10 tokens a round; the first pays for a compilation.
        ([10.0, 1.0, 1.05], [1.0, 10.0], 10 / 1.05, True),
        ([1.0, 1.0], [10.0], 10.0, True),
        ([20.0, 10.0, 5.0, 5.0], [0.5, 1.0, 2.0], 2.0, True),
        # A slow round agrees with none: found on a GPU, 1,804 tokens/s of 2,425 counted as settled.
        ([10.0, 4.0, 5.5, 4.2, 4.1], [1.0, 2.5, 10 / 5.5, 10 / 4.2], 10 / 4.1, True),
        ([64.0, 32.0, 16.0, 8.0, 4.0, 2.0], [10 / s for s in (64, 32, 16, 8, 4)], 5.0, False),
    ],
)
def test_each_level_is_warmed_at_its_own_concurrency(
    monkeypatch: pytest.MonkeyPatch,
    seconds: list[float],
    warm_up: list[float],
    speed: float,
    settled: bool,
) -> None:
    client = ClockStandIn({1: [1.0, 1.0], 4: list(seconds)})
    monkeypatch.setattr(load, "request_bodies", lambda client, asked: [None])
    monkeypatch.setattr(load, "read_counters", lambda client: None)
    monkeypatch.setattr(time, "monotonic", lambda: client.now)
    _, level = load.run(client, asked((1, 4), 1), lambda *level: None).levels  # type: ignore[arg-type]
    assert level["warm_up"] == pytest.approx(warm_up)
    assert level["tokens_per_second"] == pytest.approx(speed)
    assert level["settled"] is settled


def test_a_server_that_falls_silent_ends_the_bench_with_its_reason() -> None:
    server = TalkingStandIn()
    silent: list[bytes] = []

    def behave(connection: socket.socket, request: bytes) -> None:
        if server.asked >= 14 and request.startswith(b"POST /v1/chat"):
            silent.append(request)
            until_closed(connection)
        else:
            server.behave(connection, request)

    short = load.Load("m", (Prompt("x"),), (1, 2, 4, 8), 4, 10, 1.0)
    with serving(behave) as url, Client(url) as client:
        speeds = load.run(client, short, lambda *level: None)
    assert speeds.ended is not None
    assert speeds.ended.kind == "timeout"
    assert "no complete answer within 1 s" in speeds.ended.reason
    assert speeds.ended.concurrency < 8
    # One time limit, not one for each request that was left.
    assert 0 < len(silent) <= speeds.ended.concurrency
    assert speeds.levels[-1]["failed"] > 0


class CountingStandIn(TalkingStandIn):
    """Counts at its door, and the tokens it makes: its own answers', and others' meanwhile."""

    def __init__(self, others: int = 0, tokens: int = 0) -> None:
        super().__init__()
        self.others, self.tokens, self.read = others, tokens, 0

    def behave(self, connection: socket.socket, request: bytes) -> None:
        if request.startswith(b"GET /load"):
            load_of = json.dumps({"server_load": self.waiting + self.others}).encode()
            respond("200 OK", load_of)(connection, request)
        elif request.startswith(b"GET /metrics"):
            self.read += 1
            made = 4 * self.asked + self.tokens * self.read
            text = f'vllm:generation_tokens_total{{engine="0"}} {made}\n'
            respond("200 OK", text.encode(), "text/plain")(connection, request)
        else:
            super().behave(connection, request)


@pytest.mark.parametrize(("others", "tokens"), [(0, 0), (2, 0), (0, 100)])
def test_what_a_server_does_for_others_meanwhile_is_reported(others: int, tokens: int) -> None:
    server = CountingStandIn(others, tokens)
    with serving(server.behave) as url, Client(url) as client:
        speeds = load.run(client, asked((2,), 4), lambda *level: None)
    (level,) = speeds.levels
    assert (level["in_flight_before"], level["other_tokens"]) == (others, tokens)
    lines = "\n".join(bench_lines(evidence_of(asked((2,), 4), speeds, None)))
    assert ("not the speed of these requests alone" in lines) is bool(others or tokens)
    assert ("2 requests of others in flight before it" in lines) is (others == 2)
    assert ("100 tokens of others meanwhile" in lines) is (tokens == 100)


def test_a_hung_server_tells_what_it_holds() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        if request.startswith(b"GET /load"):
            respond("200 OK", b'{"server_load": 3}')(connection, request)
        elif request.startswith(b"POST /v1/chat"):
            until_closed(connection)
        else:
            respond("404 Not Found", b"{}")(connection, request)

    short = load.Load("m", (Prompt("x"),), (1,), 1, 10, 0.5)
    with serving(behave) as url, Client(url) as client:
        speeds = load.run(client, short, lambda *level: None)
    assert speeds.ended is not None
    assert speeds.ended.reason.endswith("; the server has 3 requests in flight")


def test_a_server_that_refuses_everything_is_asked_once() -> None:
    server = TalkingStandIn(broken=1)
    with serving(server.behave) as url, Client(url) as client:
        speeds = load.run(client, asked((2, 4), 6), lambda *level: None)
    assert server.asked == 6
    assert speeds.ended is not None
    assert speeds.ended.reason == "every request failed: HTTP 503: full"


def test_speed_up_is_by_concurrency() -> None:
    fast = [
        {"concurrency": 1, "tokens_per_second": 30.0},
        {"concurrency": 4, "tokens_per_second": 8.0},
    ]
    slow = [
        {"concurrency": 1, "tokens_per_second": 10.0},
        {"concurrency": 2, "tokens_per_second": 1.0},
    ]
    assert load.speed_up(fast, slow) == [{"concurrency": 1, "speed_up": 3.0}]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_percentiles_are_ordered_and_among_the_values(values: list[float]) -> None:
    found = load.spread(values)
    assert found is not None
    # Interpolation rounds: equal values may come out one bit apart.
    assert min(values) * (1 - 1e-9) <= found["p50"] <= found["p95"] * (1 + 1e-9)
    assert found["p95"] <= found["max"] * (1 + 1e-9)
    assert found["max"] == max(values)


def test_time_per_output_token_begins_after_the_first() -> None:
    assert load.per_token(answer(first_token=0.5)) == 0.5
    assert load.per_token(answer(first_token=0.5, completion_tokens=1)) is None
    assert load.per_token(answer()) is None
    assert load.spread([]) is None


def test_answers_are_compared_token_by_token() -> None:
    one = answer(token_ids=(1, 2, 3), content="the same text")
    assert first_difference(one, answer(token_ids=(1, 2, 3), content="the same text")) is None
    found = first_difference(one, answer(token_ids=(1, 9, 3), content="the other text"))
    assert found is not None
    assert (found.at, found.unit) == (1, "token")
    assert (found.speculative, found.plain) == ("the same text", "the other text")


def test_a_shorter_answer_differs_at_its_end() -> None:
    found = first_difference(answer(token_ids=(1, 2)), answer(token_ids=(1, 2, 3)))
    assert found is not None
    assert found.at == 2


def test_without_token_ids_the_text_is_compared() -> None:
    found = first_difference(answer(content="abc"), answer(content="abd"))
    assert found is not None
    assert (found.at, found.unit) == (2, "character")


def test_two_servers_that_answer_alike_and_otherwise() -> None:
    def saying(token: int) -> Any:
        document = {
            "choices": [
                {"message": {"content": "x"}, "finish_reason": "stop", "token_ids": [1, token]}
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        }
        return respond("200 OK", json.dumps(document).encode())

    prompts = [Prompt("a"), Prompt("b")]
    with serving(saying(5)) as url, serving(saying(6)) as other:
        with Client(url) as one, Client(url) as same:
            alike = compare(one, same, "m", prompts, 10, 60.0)
        with Client(url) as one, Client(other) as two:
            apart = compare(one, two, "m", prompts, 10, 60.0)
    assert (alike["verdict"], alike["identical"], alike["tokens"]) == ("pass", 2, 4)
    assert (apart["verdict"], apart["identical"]) == ("different", 0)
    assert (apart["first_difference"]["prompt"], apart["first_difference"]["at"]) == (0, 1)


def test_a_server_that_fails_is_not_called_the_same() -> None:
    down = respond("503 Service Unavailable", b"")
    with serving(down) as url, Client(url) as one, Client(url) as two:
        assert compare(one, two, "m", [Prompt("a")], 10, 60.0)["verdict"] == "unknown"


def test_the_command_line_without_speculation() -> None:
    argv = ["vllm", "serve", "m", "--port", "30000", "--speculative-config", "{}", "--dtype", "x"]
    plain = at_port(without_speculation(argv), 30001)
    assert plain == ["vllm", "serve", "m", "--port", "30001", "--dtype", "x"]
    assert at_port(without_speculation(argv[:5]), 1) == ["vllm", "serve", "m", "--port", "1"]
