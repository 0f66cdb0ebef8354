"""Whether a server still generates, as its supervisor asks it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from deployctl.agent.supervision.liveness import Watch, judged, progress
from deployctl.agent.wire.answers import HttpAnswer
from deployctl.agent.wire.liveness import Liveness

METRICS = 'vllm:generation_tokens_total{{engine="0"}} {0}\nvllm:num_requests_running 0.0\n'
COMPLETION = json.dumps({"choices": [{"text": "1"}]})


class Toy(ThreadingHTTPServer):
    """A server of models: what it answers is set by its test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokens = 0
        self.works_for_others = self.silent = False
        self.answer = (200, COMPLETION)
        self.asked: list[tuple[str | None, Any]] = []
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Toy

    def do_GET(self) -> None:
        self.server.tokens += self.server.works_for_others
        self._say(200, METRICS.format(self.server.tokens))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.headers["Authorization"], body))
        if self.server.silent:
            self.server.over.wait(30)
            return
        self._say(*self.server.answer)

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def toy() -> Iterator[Toy]:
    with Toy() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@contextmanager
def watching(
    toy: Toy, proven: bool | None = True, key: str | None = None, completion: float = 30.0
) -> Iterator[Watch]:
    with Watch(settings(toy, completion), key, lambda: proven) as watch:
        yield watch


def settings(toy: Toy, completion: float) -> Liveness:
    return {
        "interval": 0.02,
        "completion": completion,
        "failures": 2,
        "url": toy.url,
        "model": "tiny",
    }


def verdict(watch: Watch) -> str:
    last = watch.state["last"]
    return last["verdict"] if last else ""


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + 120
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def verdicts(watch: Watch, count: int) -> set[str]:
    """The verdicts of so many looks."""
    seen: dict[float, str] = {}
    while len(seen) < count:
        last = until(lambda: watch.state["last"])
        seen[last["time"]] = last["verdict"]
        time.sleep(0.001)
    return set(seen.values())


def test_a_completion_is_life(toy: Toy) -> None:
    with watching(toy, key="open") as watch:
        until(lambda: verdict(watch) == "alive")
        assert verdicts(watch, 3) == {"alive"}
        assert watch.state["failures"] == 0 and not watch.hung
    key, body = toy.asked[0]
    assert key == "Bearer open"
    assert (body["model"], body["max_tokens"]) == ("tiny", 1)


def test_silence_twice_in_a_row_is_a_hang(toy: Toy) -> None:
    toy.silent = True
    with watching(toy, completion=0.1) as watch:
        until(lambda: watch.hung)
    last = watch.state["last"]
    assert last is not None and last["verdict"] == "silent" and watch.state["failures"] == 2
    assert last["why"] == "no completion: no complete answer within 0.1 s"
    # Who asked has gone before a slow server comes to read that.
    until(lambda: len(toy.asked) >= 2)
    assert len(toy.asked) == 2


def test_a_server_that_works_for_others_is_not_asked_and_never_hangs(toy: Toy) -> None:
    toy.silent = toy.works_for_others = True
    with watching(toy) as watch:
        until(lambda: verdict(watch) == "busy")
        assert verdicts(watch, 5) == {"busy"}
        assert watch.state["failures"] == 0 and not watch.hung
    assert not toy.asked


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_an_answer_that_is_no_completion_is_no_hang(toy: Toy, status: int) -> None:
    toy.answer = (status, '{"error": "no"}')
    with watching(toy) as watch:
        assert verdicts(watch, 4) == {"unknown"}
        assert not watch.hung


def test_a_server_that_has_not_generated_yet_is_not_judged(toy: Toy) -> None:
    toy.silent = True
    with watching(toy, proven=False, completion=0.5) as watch:
        until(lambda: verdict(watch) == "starting")
        assert verdicts(watch, 3) == {"starting"}
        toy.silent = False
        until(lambda: verdict(watch) == "alive")
        toy.silent = True
        until(lambda: watch.hung)


def test_a_start_that_was_never_proven_is_not_asked(toy: Toy) -> None:
    looks: list[None] = []
    with Watch(settings(toy, 1.0), None, lambda: looks.append(None)) as watch:
        until(lambda: len(looks) >= 4)
    assert not toy.asked and watch.state["last"] is None


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (None, "", "silent"),
        (200, COMPLETION, "alive"),
        (200, '{"choices": []}', "unknown"),
        (200, "<html>", "unknown"),
        (200, "[" * 100000, "unknown"),
    ],
)
def test_what_an_answer_says(status: int | None, body: str, verdict: str) -> None:
    answer: HttpAnswer = {"status": status, "body": body, "error": "refused", "seconds": 0.0}
    assert judged(answer)[0] == verdict


def test_progress_is_the_engine_s_and_not_that_of_the_door() -> None:
    text = (
        "# HELP vllm:generation_tokens_total Number of tokens\n"
        'vllm:generation_tokens_total{engine="0",model_name="t"} 5.0\n'
        'vllm:generation_tokens_total{engine="1",model_name="t"} 2.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0\n'
        "http_requests_total 9\nvllm:prompt_tokens_total{ broken\n"
    )
    assert progress(text) == {
        "vllm:generation_tokens_total": 7.0,
        "vllm:kv_cache_usage_perc": 0.25,
        'sleep_state="awake"': 0.0,
    }
    assert progress("up 1\n") is None
