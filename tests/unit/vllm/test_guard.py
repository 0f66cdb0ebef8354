"""The guard of control endpoints: an ASGI middleware, asked as a server asks it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from deployctl.vllm.serving import guard

KEY = "a" * 64


def ask(path: str, *keys: bytes, kind: str = "http", root: str = "") -> str:
    """`passed`, or what is sent instead."""
    said: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        said.append("passed")

    async def send(message: Any) -> None:
        said.append(message.get("status") or message["type"])

    async def receive() -> Any:
        raise AssertionError

    headers = [(b"host", b"x"), *((b"X-Deployctl-Key", key) for key in keys)]
    scope = {"type": kind, "path": path, "root_path": root, "headers": headers}
    asyncio.run(guard.Guard(app)(scope, receive, send))
    return str(said[0])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(guard.KEY, KEY)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/models",
        "/health",
        "/metrics",
        "/load",
        "/tokenize",
        "/v2/rerank",
    ],
)
def test_what_is_for_clients_passes(path: str) -> None:
    assert ask(path) == "passed"


@pytest.mark.parametrize(
    "path",
    [
        *("/sleep", "/wake_up", "/is_sleeping", "/collective_rpc", "/reset_prefix_cache"),
        *("/pause", "/resume", "/update_weights", "/server_info", "/get_world_size"),
        *("/release_kv_cache_memory", "/init_weight_transfer_engine", "/scale_elastic_ep"),
        *("/sleep/", "//sleep", "/v1", "/x/v1/models", "", "/inference/v1/abort_requests"),
    ],
)
def test_everything_else_needs_the_key(path: str) -> None:
    assert ask(path) == ask(path, b"b" * 64) == ask(path, b"") == "404"
    assert ask(path, KEY.encode()) == "passed"


def test_a_key_is_given_once() -> None:
    assert ask("/sleep", KEY.encode(), b"b" * 64) == "404"


def test_a_prefix_of_the_server_is_read_as_its_router_reads_it() -> None:
    assert ask("/v1/sleep", root="/v1") == "404"
    assert ask("/llm/v1/models", root="/llm") == "passed"
    assert ask("/llm/sleep", root="/llm") == "404"
    assert ask("/llmx/v1/models", root="/llm") == "404"


def test_websockets_are_closed_and_the_start_passes() -> None:
    assert ask("/sleep", kind="websocket") == "websocket.close"
    assert ask("", kind="lifespan") == "passed"


def test_without_a_key_of_its_own_it_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(guard.KEY)
    assert ask("/sleep", b"") == ask("/sleep", KEY.encode()) == "404"
    assert ask("/v1/models") == "passed"
