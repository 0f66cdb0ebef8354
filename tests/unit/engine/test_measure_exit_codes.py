"""Every measuring command against every way to answer: the exit code that follows."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from deployctl.config.checks import AcceptanceSettings, SmokeSettings
from deployctl.engine.measure import checks
from deployctl.errors import DeployError, StepError
from deployctl.steps import bench
from deployctl.vllm.client.client import Client
from tests.unit.vllm.loopback import Behaviour, events, respond, serving, stream

PAGE = b"<html><head><title>Sign in</title></head></html>"
ANSWER = {
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "pass"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
STREAMED = events(
    {"choices": [{"delta": {"content": "pass"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": ANSWER["usage"]},
)
SMOKE = SmokeSettings.model_validate({"requests": [{"name": "one", "prompt": "x"}]})
ACCEPTANCE = AcceptanceSettings(max_prompts=1, max_tokens=4)


def failing(status: str, **more: object) -> Behaviour:
    return respond(status, json.dumps({"error": {"message": "words", **more}}).encode())


def in_an_answer(**error: object) -> Behaviour:
    return failing("200 OK", **error)


def in_an_event(**error: object) -> Behaviour:
    return stream(*events({"error": {"message": "words", **error}}))


def dropped(connection: socket.socket, request: bytes) -> None:
    """The connection is closed without a word."""


REFUSED = (11, 11, 11)
FAILED = (8, 11, 8)
"""Of smoke, acceptance, bench: acceptance has no figure then, which is no verdict."""
COMPLETIONS: dict[str, tuple[Behaviour, tuple[int, int, int]]] = {
    "400": (failing("400 Bad Request"), FAILED),
    "401": (failing("401 Unauthorized"), REFUSED),
    "402": (failing("402 Payment Required"), REFUSED),
    "403": (failing("403 Forbidden"), REFUSED),
    "404": (failing("404 Not Found"), FAILED),
    "407": (failing("407 Proxy Authentication Required"), REFUSED),
    "422": (failing("422 Unprocessable Entity"), FAILED),
    "429": (failing("429 Too Many Requests\r\nRetry-After: 7"), REFUSED),
    "451": (failing("451 Unavailable For Legal Reasons"), REFUSED),
    "500": (failing("500 Internal Server Error"), FAILED),
    "502": (respond("502 Bad Gateway", PAGE, "text/html"), FAILED),
    "503": (failing("503 Service Unavailable"), FAILED),
    "524": (respond("524 A Timeout Occurred", PAGE, "text/html"), FAILED),
    "a page": (respond("200 OK", PAGE, "text/html"), FAILED),
    "nothing": (respond("200 OK", b""), FAILED),
    "closed": (dropped, FAILED),
    "moved": (respond("302 Found\r\nLocation: /login", b""), FAILED),
    "error": (in_an_answer(), FAILED),
    "error 401": (in_an_answer(code=401), REFUSED),
    "error 429": (in_an_answer(code="429"), REFUSED),
    "error 500": (in_an_answer(code=500), FAILED),
    "event": (in_an_event(), FAILED),
    "event 429": (in_an_event(code=429), REFUSED),
}


CASES = Path(__file__).parents[2] / "cases"
COUNTERS = respond(
    "200 OK", (CASES / "vllm_cpu" / "metrics-0.32.0-ngram.txt").read_bytes(), "text/plain"
)


def routed(models: Behaviour, completions: Behaviour) -> Behaviour:
    def behave(connection: socket.socket, request: bytes) -> None:
        path = request.split(b" ")[1]
        missing = respond("404 Not Found", b"{}")
        known = {
            b"/v1/models": models,
            b"/v1/chat/completions": completions,
            b"/metrics": COUNTERS,
        }
        known.get(path, missing)(connection, request)

    return behave


MODELS = respond("200 OK", json.dumps({"data": [{"id": "m", "max_model_len": 4096}]}).encode())


def failures(url: str) -> tuple[StepError | None, ...]:
    """What smoke, acceptance and bench make of a server."""
    with Client(url) as client:
        smoke = checks.smoke_of(client, "m", SMOKE, lambda name, verdict: None)
        accepted = checks.acceptance_of(client, "m", ACCEPTANCE, lambda *_: None)
        load = bench.make_load(ACCEPTANCE, "m", (1,), 1)
        speed = bench.of_servers(client, None, load, lambda *_: None)
    return (
        checks.smoke_failure(url, smoke),
        checks.acceptance_failure(url, accepted),
        checks.bench_failure(url, speed),
    )


@pytest.mark.parametrize("name", COMPLETIONS)
def test_a_request_that_ends_so(name: str) -> None:
    behave, expected = COMPLETIONS[name]
    with serving(routed(MODELS, behave)) as url:
        found = failures(url)
    assert tuple(failure.exit_code if failure else 0 for failure in found) == expected
    said = [str(failure.what) for failure in found if failure is not None]
    if "error" in name or "event" in name or name in ("400", "500"):
        assert all("words" in words for words in said), said
    if name == "429":
        assert all("Retry-After: 7" in words for words in said), said


def test_an_answer_passes_what_it_can_show() -> None:
    whole = respond("200 OK", json.dumps(ANSWER).encode())

    def behave(connection: socket.socket, request: bytes) -> None:
        (stream(*STREAMED) if b'"stream"' in request else whole)(connection, request)

    with serving(routed(MODELS, behave)) as url:
        found = failures(url)
    assert [failure and failure.exit_code for failure in found] == [None, 11, None]


LISTED: dict[str, tuple[Behaviour, int]] = {
    "400": (failing("400 Bad Request"), 2),
    "401": (failing("401 Unauthorized"), 11),
    "402": (failing("402 Payment Required"), 11),
    "403": (failing("403 Forbidden"), 11),
    "404": (failing("404 Not Found"), 2),
    "407": (failing("407 Proxy Authentication Required"), 11),
    "429": (failing("429 Too Many Requests"), 11),
    "500": (failing("500 Internal Server Error"), 7),
    "501": (failing("501 Not Implemented"), 7),
    "502": (respond("502 Bad Gateway", PAGE, "text/html"), 7),
    "503": (failing("503 Service Unavailable"), 7),
    "529": (failing("529 Overloaded"), 7),
    "a page": (respond("200 OK", PAGE, "text/html"), 2),
    "nothing": (respond("200 OK", b""), 2),
    "no list": (respond("200 OK", b'{"data": {}}'), 2),
    "no model": (respond("200 OK", b'{"data": []}'), 2),
    "two models": (respond("200 OK", b'{"data": [{"id": "a"}, {"id": "b"}]}'), 2),
    "moved": (respond("301 Moved\r\nLocation: /login", b""), 2),
    "closed": (dropped, 7),
    "error": (in_an_answer(), 2),
    "error 401": (in_an_answer(code=401), 11),
    "error 503": (in_an_answer(code=503), 7),
}


@pytest.mark.parametrize("name", LISTED)
def test_a_list_of_models_that_ends_so(name: str) -> None:
    behave, code = LISTED[name]
    with serving(behave) as url, Client(url) as client, pytest.raises(DeployError) as found:
        checks.served_model(client, None)
    assert found.value.exit_code == code
    assert found.value.next
