"""What a proxy before a router passes on: one request of a client, read in one way alone."""

from __future__ import annotations

import pytest

from deployctl.agent.network.proxy import Refused, allowed, passed_on

HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\n"
    b"Host: gpu1:8080\r\n"
    b"connection: keep-alive\r\n"
    b"Authorization: Bearer x\r\n"
    b"Content-Length: 2\r\n\r\n"
)


def test_a_request_ends_its_connection_to_the_router() -> None:
    assert passed_on(HEAD) == (
        b"POST /v1/chat/completions HTTP/1.1\r\n"
        b"Host: gpu1:8080\r\n"
        b"Authorization: Bearer x\r\n"
        b"Content-Length: 2\r\n"
        b"Connection: close\r\n\r\n"
    )
    assert passed_on(b"GET /v1/models HTTP/1.0\r\n\r\n").endswith(b"Connection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("target", "may"),
    [
        ("/v1/models", True),
        ("/v1/models/Qwen%2FQwen3-8B", True),
        ("/v1/completions?x=1", True),
        ("/health", True),
        ("/readiness", True),
        ("/add_worker?url=http://evil", False),
        ("/remove_worker", False),
        ("/workers", False),
        ("/list_workers", False),
        ("/v1/../add_worker", False),
        ("/v1/%2e%2e/add_worker", False),
        ("/v1/%2E%2E%2Fadd_worker", False),
        ("/v1\\..\\add_worker", False),
        ("/v1", False),
        ("/health/x", False),
        ("//v1/models", False),
        ("http://gpu1:8080/add_worker", False),
        ("*", False),
    ],
)
def test_clients_paths_alone_are_passed_on(target: str, may: bool) -> None:
    assert allowed(target) is may
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    if may:
        assert passed_on(head).startswith(f"POST {target} ".encode())
    else:
        with pytest.raises(Refused, match="404"):
            passed_on(head)


@pytest.mark.parametrize(
    "head",
    [
        # A bare line feed ends a line for some programs: the rest would be another request.
        b"GET /v1/models HTTP/1.1\nHost: x\n\nPOST /add_worker?url=y HTTP/1.1\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\n\nPOST /add_worker HTTP/1.1\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\rConnection: keep-alive\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nX: a\0b\r\n\r\n",
        # Folded lines and names with spaces are read in more than one way.
        b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n keep-alive\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nConnection : keep-alive\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"GET  /v1/models HTTP/1.1\r\n\r\n",
        b"GET /v1/models\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(Refused, match="400"):
        passed_on(head)
