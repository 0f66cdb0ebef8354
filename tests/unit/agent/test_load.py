"""Requests in flight at a stop, counted at the server's door."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.supervision import ending
from deployctl.agent.supervision.load import Watch


@contextmanager
def counting(*bodies: str) -> Iterator[tuple[str, Event]]:
    """A server that answers these one after the other, and the last for ever; its URL, and whether
    the last was asked for."""
    left, asked = list(bodies), Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())
            if len(left) == 1:
                asked.set()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/load", asked
        server.shutdown()
        thread.join()


def watch(url: str, until: Event, drain: float) -> Watch:
    with Watch(Call("/", lambda event: None), url, drain) as found:
        assert until.wait(30)
    return found


@pytest.mark.parametrize(
    ("bodies", "drain", "told"),
    [
        (('{"server_load": 3}', '{"server_load": 0}'), 60.0, (3, 0)),
        (('{"server_load": 3}', '{"server_load": 1}'), 60.0, (3, 1)),
        (('{"server_load": 3}', '{"server_load": 0}'), 0.0, (3, 3)),
        (('{"server_load": null}', "<html>"), 0.0, (None, None)),
    ],
)
def test_what_was_cut_off(bodies: tuple[str, ...], drain: float, told: tuple[int, int]) -> None:
    # The last body is seen twice: once asked, once surely taken in.
    with counting(*bodies, bodies[-1]) as (url, asked):
        found = watch(url, asked, drain).told()
    assert (found["in_flight"], found["cut_off"]) == told


def test_a_server_that_counts_nothing_is_not_asked() -> None:
    with Watch(Call("/", lambda event: None), "", 60.0) as found:
        pass
    assert found.told() == {"in_flight": None, "cut_off": None}


@pytest.mark.parametrize(
    ("argv", "seconds"),
    [
        (["vllm", "serve", "--shutdown-timeout", "15", "--x"], 15.0),
        # Not at all: what it has in flight is cut off.
        (["vllm", "serve", "--shutdown-timeout", "0"], 0.0),
        (["vllm", "serve", "--shutdown-timeout"], 0.0),
        (["vllm", "serve", "--shutdown-timeout", "soon"], 0.0),
        (["vllm", "serve"], 0.0),
        ([], 0.0),
    ],
)
def test_how_long_a_server_lets_its_requests_end(argv: list[str], seconds: float) -> None:
    assert ending._drain(argv) == seconds
