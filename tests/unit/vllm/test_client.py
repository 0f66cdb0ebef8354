"""The client against servers that misbehave, over real sockets: right outcome, bounded time."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from deployctl.errors import UsageError
from deployctl.vllm.client import requests
from deployctl.vllm.client.client import Client, Limits, Request, Served
from deployctl.vllm.client.outcome import RequestFailed
from tests.hosts.lab.ports import free_port
from tests.unit.vllm.loopback import Behaviour, events, respond, serving, stream, until_closed

LIMITS = Limits(connect=60.0, silence=60.0, size=64 * 1024)
ANSWER = json.dumps(
    {
        "model": "m",
        "choices": [{"message": {"content": "OK"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
).encode()
EVENTS = [
    {"model": "m", "choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"model": "m", "choices": [{"delta": {"content": "O"}}]},
    {"model": "m", "choices": [{"delta": {"content": "K"}, "finish_reason": "stop"}]},
    {"model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]


def asked(streaming: bool = False, timeout: float = 60.0) -> Request:
    return Request(requests.chat("m", requests.user("hi"), 10, stream=streaming), timeout)


def failure(
    behave: Behaviour, streaming: bool = False, timeout: float = 60.0, limits: Limits = LIMITS
) -> RequestFailed:
    """How a request to such a server fails: by its own fault, unless a bound is what is meant."""
    with serving(behave) as url, Client(url, limits=limits) as client:
        with pytest.raises(RequestFailed) as failed:
            client.send(asked(streaming, timeout))
        return failed.value


def test_an_answer_at_once() -> None:
    with serving(respond("200 OK", ANSWER)) as url, Client(url + "/v1/") as client:
        answer = client.send(asked())
    assert (answer.content, answer.finish_reason, answer.completion_tokens) == ("OK", "stop", 1)
    assert answer.first_token is None


def test_a_stream() -> None:
    with serving(stream(*events(*EVENTS))) as url, Client(url) as client:
        answer = client.send(asked(streaming=True))
    assert (answer.content, answer.finish_reason, answer.completion_tokens) == ("OK", "stop", 2)
    assert answer.first_token is not None
    assert 0 < answer.first_token <= answer.seconds


def test_a_stream_in_odd_pieces() -> None:
    whole = b"".join(events(*EVENTS))
    pieces = [whole[i : i + 7] for i in range(0, len(whole), 7)]
    with serving(stream(*pieces)) as url, Client(url) as client:
        assert client.send(asked(streaming=True)).content == "OK"


def test_tool_calls_and_reasoning_in_a_stream() -> None:
    call = {"index": 0, "function": {"name": "search", "arguments": ""}}
    pieces = events(
        {"choices": [{"delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"delta": {"tool_calls": [call]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    )
    with serving(stream(*pieces)) as url, Client(url) as client:
        answer = client.send(asked(streaming=True))
    assert (answer.content, answer.reasoning, answer.tool_calls) == (None, "hm", ("search",))


def test_a_hang_in_the_middle_of_a_stream() -> None:
    hang = stream(*events(EVENTS[0], done=False), then=until_closed)
    failed = failure(hang, streaming=True, limits=replace(LIMITS, silence=1.0))
    assert failed.kind == "stalled"
    assert "silent for 1 s" in str(failed)


def test_a_stream_that_trickles_ends_at_the_deadline() -> None:
    def trickle(connection: socket.socket) -> None:
        gone = threading.Event()
        while not gone.wait(0.05):
            connection.sendall(b"2\r\n:\n\r\n")

    failed = failure(stream(then=trickle), streaming=True, timeout=0.8)
    assert failed.kind == "timeout"
    assert "within 0.8 s" in str(failed)


def test_headers_that_trickle_end_at_the_deadline() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        gone = threading.Event()
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not gone.wait(0.05):
            connection.sendall(b"x")

    assert failure(behave, timeout=0.8).kind == "timeout"


def test_a_server_that_never_answers() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        until_closed(connection)

    assert failure(behave, timeout=0.5).kind == "timeout"


def test_broken_json() -> None:
    assert failure(respond("200 OK", b'{"choices": [')).kind == "bad-answer"


def test_json_that_is_no_answer() -> None:
    assert failure(respond("200 OK", b'{"choices": []}')).kind == "bad-answer"


def test_broken_json_in_a_stream() -> None:
    failed = failure(stream(b'data: {"choices": [\n\n'), streaming=True)
    assert failed.kind == "bad-answer"


def test_an_error_event_in_a_stream() -> None:
    failed = failure(stream(*events({"error": {"message": "engine died"}})), streaming=True)
    assert failed.kind == "bad-answer"
    assert "engine died" in str(failed)


def test_an_early_close() -> None:
    assert failure(respond("200 OK", ANSWER, more=100)).kind == "early-close"


def test_an_early_close_of_a_stream() -> None:
    abrupt = stream(*events(EVENTS[1], done=False), then=lambda connection: None)
    assert failure(abrupt, streaming=True).kind == "early-close"


def test_a_stream_that_ends_politely_without_an_end() -> None:
    assert failure(stream(*events(EVENTS[1], done=False)), streaming=True).kind == "early-close"


def test_a_close_before_any_answer() -> None:
    assert failure(lambda connection, request: None).kind == "early-close"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("429 Too Many Requests", "busy"),
        ("503 Service Unavailable", "unavailable"),
        ("502 Bad Gateway", "unavailable"),
        ("401 Unauthorized", "key"),
        ("403 Forbidden", "forbidden"),
        ("500 Internal Server Error", "http"),
        ("404 Not Found", "http"),
    ],
)
def test_other_statuses(status: str, kind: str) -> None:
    failed = failure(respond(status, b'{"error": "said the server"}'))
    assert (failed.kind, failed.status) == (kind, int(status[:3]))
    assert "said the server" in str(failed)


def test_when_to_come_back_is_shown() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 2\r\n"
        connection.sendall(head + b"Connection: close\r\n\r\n{}")

    assert str(failure(behave)) == "HTTP 429: {} (Retry-After: 30)"


def test_where_else_it_is_served_is_shown() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        head = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: https://login.example/\r\n"
        connection.sendall(head + b"Content-Length: 0\r\nConnection: close\r\n\r\n")

    assert str(failure(behave)) == "HTTP 307: Temporary Redirect (moved to https://login.example/)"


ERROR_BODIES = [
    (b'{"error": {"message": "no room", "type": "BadRequestError", "code": 400}}', "http", 400),
    (b'{"object": "error", "message": "no room", "code": 429}', "busy", 429),
    (b'{"detail": "no room"}', "bad-answer", None),
    (b'{"detail": [{"loc": ["body"], "msg": "no room"}]}', "bad-answer", None),
    (
        b'[{"error": {"code": 503, "message": "no room", "status": "UNAVAILABLE"}}]',
        "unavailable",
        503,
    ),
    (b'{"error": "no room"}', "bad-answer", None),
    (b'{"fault": {"faultstring": "no room"}}', "bad-answer", None),
    (b'{"errors": [{"message": "no room"}], "choices": []}', "bad-answer", None),
    (b'data: {"error": {"message": "no room", "code": "401"}}\n\ndata: [DONE]\n\n', "key", 401),
    (b'event: error\ndata: {"message": "no room", "status_code": 500}\n\n', "http", 500),
    (
        b"<html><head><style>x{}</style><title>Oops</title></head><body><p>no room</p></body>",
        "bad-answer",
        None,
    ),
    (b"no room", "bad-answer", None),
]


@pytest.mark.parametrize(("body", "kind", "status"), ERROR_BODIES)
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/html"])
def test_an_error_with_the_status_of_an_answer(
    body: bytes, kind: str, status: int | None, streaming: bool, content_type: str
) -> None:
    failed = failure(respond("200 OK", body, content_type), streaming)
    assert "no room" in str(failed)
    assert "<" not in str(failed)
    if kind != "bad-answer":
        assert (failed.kind, failed.status) == (kind, status)


def test_an_answer_that_comes_whole_although_a_stream_was_asked_for() -> None:
    with serving(respond("200 OK", ANSWER)) as url, Client(url) as client:
        answer = client.send(asked(streaming=True))
    assert (answer.content, answer.first_token) == ("OK", None)


def test_an_answer_without_end_is_cut() -> None:
    def endless(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    assert failure(stream(then=endless)).kind == "too-large"
    assert failure(stream(then=endless), streaming=True).kind == "too-large"


def test_nobody_listens() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url) as client, pytest.raises(RequestFailed) as failed:
        client.send(asked())
    assert failed.value.kind == "refused"


def test_a_key_travels_as_a_bearer_token() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        right = b"authorization: bearer s3cret" in request.lower()
        respond("200 OK" if right else "401 Unauthorized", ANSWER)(connection, request)

    with serving(behave) as url:
        with Client(url, "s3cret") as client:
            assert client.send(asked()).content == "OK"
        with Client(url) as client, pytest.raises(RequestFailed) as failed:
            client.send(asked())
        assert failed.value.kind == "key"


def test_tls_with_an_authority_of_its_own(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(respond("200 OK", ANSWER), context) as url:
        with Client(url, ca_file=str(certificate)) as client:
            assert client.send(asked()).content == "OK"
        with Client(url) as client, pytest.raises(RequestFailed) as failed:
            client.send(asked())
        assert failed.value.kind == "refused"
        assert "certificate" in str(failed.value).lower()


def test_several_at_once_keep_their_order() -> None:
    together = threading.Barrier(3, timeout=60)

    def behave(connection: socket.socket, request: bytes) -> None:
        together.wait()
        prompt = json.loads(request.partition(b"\r\n\r\n")[2])["messages"][0]["content"]
        text = ANSWER.replace(b"OK", prompt.encode())
        respond("200 OK", text)(connection, request)

    wanted = [Request(requests.chat("m", requests.user(str(i)), 10), 60.0) for i in range(6)]
    with serving(behave) as url, Client(url) as client:
        answers = client.send_all(wanted, concurrency=3)
    assert [getattr(answer, "content", answer) for answer in answers] == list("012345")


def test_metrics_version_and_models() -> None:
    def behave(connection: socket.socket, request: bytes) -> None:
        path = request.split()[1]
        bodies = {
            b"/metrics": b"vllm:generation_tokens_total 3.0\n",
            b"/version": b'{"version": "0.32.0"}',
            b"/v1/models": b'{"data": [{"id": "tiny", "max_model_len": 1024}]}',
            b"/tokenize": b'{"count": 7}',
        }
        respond("200 OK", bodies[path])(connection, request)

    with serving(behave) as url, Client(url) as client:
        assert client.metrics() == "vllm:generation_tokens_total 3.0\n"
        assert client.version() == "0.32.0"
        assert client.models() == ["tiny"]
        assert client.served()[0].max_model_len == 1024
        assert client.count_tokens("tiny", requests.user("hi")) == 7


def test_the_environments_proxy_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving(respond("200 OK", ANSWER)) as url, Client(url) as client:
        assert client.send(asked()).content == "OK"


@pytest.mark.parametrize(
    "choices",
    [3, "abc", [3], [{"delta": {"tool_calls": 3}}], [{"delta": {"tool_calls": [{"index": None}]}}]],
)
def test_events_of_another_shape_never_crash(choices: object) -> None:
    with serving(stream(*events({"choices": choices}, *EVENTS))) as url, Client(url) as client:
        try:
            assert client.send(asked(streaming=True)).content == "OK"
        except RequestFailed as error:
            assert error.kind == "bad-answer"


def test_no_error_is_none() -> None:
    silent: dict[str, object] = {"error": None, "choices": []}
    with serving(stream(*events(silent, *EVENTS))) as url, Client(url) as client:
        assert client.send(asked(streaming=True)).content == "OK"


def test_json_that_is_nested_beyond_reason() -> None:
    deep = b"[" * 50_000
    assert failure(respond("200 OK", deep)).kind == "bad-answer"
    assert failure(stream(b"data: " + deep + b"\n\n"), streaming=True).kind == "bad-answer"


@pytest.mark.parametrize("body", [b"3", b"null", b"[]", b'"version"', b'{"version": null}'])
def test_a_version_of_another_shape_is_none(body: bytes) -> None:
    with serving(respond("200 OK", body)) as url, Client(url) as client:
        assert client.version() is None


def test_models_of_another_shape_are_none() -> None:
    body = b'{"data": [3, {"id": null}, {"id": "m", "max_model_len": true}]}'
    with serving(respond("200 OK", body)) as url, Client(url) as client:
        assert client.served() == [Served("m", None)]


def test_a_count_of_a_request_that_is_no_count_is_none() -> None:
    made = {"acceptance_histogram": [1, 1e999], "num_spec_steps": 2}
    body = json.dumps({**json.loads(ANSWER), "metrics": {"speculative_decoding": made}}).encode()
    with serving(respond("200 OK", body)) as url, Client(url) as client:
        assert client.send(asked()).speculation is None


@pytest.mark.parametrize(
    "url",
    ["foo", "", "http://", "ftp://a", "http://[::1", "http://a:99999", "http://a:0", "http://a:b"],
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(UsageError, match="not a server URL"):
        Client(url)


@pytest.mark.parametrize("key", ["a\nb", "schl\u00fcssel"])
def test_a_key_that_no_header_can_carry_is_not_shown(key: str) -> None:
    with pytest.raises(UsageError) as refused:
        Client("http://127.0.0.1:1", key)
    assert key not in f"{refused.value.what}{refused.value.why}{refused.value.next}"


@pytest.mark.parametrize("name", ["none", "empty"])
def test_a_file_that_is_no_authority(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="certificate authority"):
        Client("https://127.0.0.1:1", ca_file=str(tmp_path / name))
