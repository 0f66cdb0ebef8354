"""Keeps vLLM's control endpoints for whoever has the key: an ASGI middleware of the server itself.

Lies beside a unit's server, is named by `--middleware deployctl_guard.Guard`, and runs in the
server's process with the standard library alone. VLLM_SERVER_DEV_MODE=1, which sleep mode needs,
opens endpoints that put the engine to sleep, call any method of its workers and replace its
weights; vLLM's own API key guards /v1 alone. So every path that is not known to be for clients
answers 404 here, whoever asks and from where, unless the header x-deployctl-key has the key.

The path is looked at as Starlette's router reads it, after the server has parsed the request: no
second parser could read it differently.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

KEY, HEADER = "DEPLOYCTL_CONTROL_KEY", b"x-deployctl-key"
PREFIXES = ("/v1/", "/v2/", "/cohere/", "/metrics/", "/static/", "/docs/")
EXACT = (
    "/classify",
    "/detokenize",
    "/docs",
    "/generative_scoring",
    "/health",
    "/inference/v1/generate",
    "/invocations",
    "/load",
    "/metrics",
    "/openapi.json",
    "/ping",
    "/pooling",
    "/ready",
    "/readyz",
    "/redoc",
    "/rerank",
    "/score",
    "/tokenize",
    "/tokenizer_info",
    "/version",
)
"""What a server without the mode serves (0.20 to 0.33), but what starts, stops or scales."""


class Guard:
    """The middleware."""

    def __init__(self, app: App) -> None:
        self._app = app
        key = os.environ.get(KEY, "")
        self._key = digest(key.encode()) if key else None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_open(scope) or self._has_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"application/json"), (b"content-length", b"22")]
            await send({"type": "http.response.start", "status": 404, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"detail":"Not Found"}'})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _has_key(self, scope: Message) -> bool:
        given = [value for name, value in scope["headers"] if name.lower() == HEADER]
        if self._key is None or len(given) != 1:
            return False
        return hmac.compare_digest(digest(given[0]), self._key)


def is_open(scope: Message) -> bool:
    """Whether a request is for an endpoint of clients."""
    path, root = str(scope["path"]), str(scope.get("root_path") or "")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        path = path[len(root) :]
    return path in EXACT or path.startswith(PREFIXES)


def digest(text: bytes) -> bytes:
    """Keys are compared by this, so that neither length nor content shows in the time it takes."""
    return hashlib.sha256(text).digest()
