"""Whether a server generates, from what it answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployctl.steps.interface import Answers, Unknown
from deployctl.steps.servers import life
from tests.hosts.step_bench import deployment

DONE = json.dumps({"choices": [{"index": 0, "text": "2"}]})
NGINX = "/v1/completions answers 503: a web page, not an API's answer: 503"
LATE = "no complete answer within 10 s"


def answer(status: int | None, body: str = "", error: str | None = None) -> dict[str, Any]:
    return {"status": status, "body": body, "error": error}


@pytest.mark.parametrize(
    ("said", "load", "generates", "why"),
    [
        (answer(200, DONE), None, True, ""),
        (answer(200, ""), None, False, "an answer without a completion"),
        (
            answer(200, '{"choices": []}'),
            None,
            False,
            'an answer without a completion: {"choices": []}',
        ),
        (answer(None, "", LATE), None, False, f"no completion: {LATE}"),
        (
            answer(None, "", LATE),
            answer(200, '{"server_load": 2}'),
            False,
            f"no completion: {LATE}, 2 requests in flight",
        ),
        (answer(500), None, False, "/v1/completions answers 500"),
        (answer(401), None, None, "/v1/completions answers 401: it wants an API key"),
        (
            answer(401, '{"error": "Unauthorized"}'),
            None,
            None,
            "/v1/completions answers 401: Unauthorized: it wants an API key",
        ),
        (answer(403, "not you"), None, None, "/v1/completions answers 403: not you"),
        (answer(429), None, None, "/v1/completions answers 429"),
        (
            answer(200, '{"error": {"message": "slow down", "code": 429}}'),
            None,
            None,
            "/v1/completions answers 429: slow down",
        ),
        (
            answer(200, '{"error": {"message": "engine dead", "code": 500}}'),
            None,
            False,
            "an answer without a completion: engine dead",
        ),
        (
            answer(404, '{"error": {"message": "The model `m` does not exist."}}'),
            None,
            None,
            "/v1/completions answers 404: The model `m` does not exist.",
        ),
        (answer(503, "<title>503</title>"), None, False, NGINX),
        (answer(404), None, None, "/v1/completions answers 404: it has no such endpoint"),
        (Unknown("lost", "no agent"), None, None, "no agent"),
    ],
)
def test_only_a_completion_proves_life(said: Any, load: Any, generates: Any, why: str) -> None:
    unit = {"argv": ["vllm", "serve", "m", "--enable-server-load-tracking"]}
    assert life.generates(Answers({"life": said, "load": load, "unit": unit})) == (generates, why)


def test_the_key_travels_and_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_KEY", "open sesame")
    wanted = deployment({"serve": {"api_key": {"env": "TOY_KEY"}}})
    asked = life.questions(wanted.profile)[0]
    assert asked.call.args["headers"]["Authorization"] == "Bearer open sesame"
    assert "sesame" not in repr(asked)


def reading(tokens: int | None, status: int = 200) -> dict[str, Any]:
    line = "" if tokens is None else f'vllm:generation_tokens_total{{engine="0"}} {tokens}.0\n'
    # As the host's own answer, which is cut.
    return answer(status, f'# HELP x\n{line}vllm:e2e_request_latency_seconds_bucket{{le="0.')


@pytest.mark.parametrize(
    ("readings", "made"),
    [
        ((reading(100), reading(160)), 60),
        ((reading(100), reading(100)), 0),
        # It was started again meanwhile.
        ((reading(100), reading(10)), 0),
        ((reading(100), reading(None)), None),
        ((reading(100), answer(None, "", LATE)), None),
        ((reading(100), reading(160, 503)), None),
        ((answer(200, 'vllm:generation_tokens_total{a="} x'), reading(1)), None),
    ],
)
def test_a_busy_server_is_not_a_hung_one(readings: Any, made: int | None) -> None:
    assert life.made(readings) == made
    known = Answers({"life": answer(None, "", LATE), "unit": {}, "made": made})
    alive, why = life.generates(known)
    assert life.waits(known) and alive is bool(made)
    assert why.startswith("it is busy: 60 tokens" if made else "no completion")
