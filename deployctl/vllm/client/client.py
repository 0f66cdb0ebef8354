"""A bounded client of an OpenAI-compatible server: every request ends, with an answer or a reason.

Requests run on an event loop of the client's own, so that one absolute deadline covers all of a
request (connecting, headers that trickle, a stream that hangs), and so that several can run at
once. Nothing is retried: how often a server refuses is something to know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import httpx

from deployctl import cancel
from deployctl.vllm import json_text
from deployctl.vllm.client import address
from deployctl.vllm.client.answers import WORD, Answer, Assembly, Malformed, read, whole
from deployctl.vllm.client.event_stream import EventStream
from deployctl.vllm.client.outcome import RequestFailed, kind_of, translated

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Bounds of one request: seconds to connect, of silence once a stream began, and bytes."""

    connect: float = 10.0
    silence: float = 60.0
    size: int = 16 * 1024 * 1024


@dataclass(frozen=True)
class Request:
    """A request to a completion endpoint: `chat/completions` or `completions`."""

    body: Mapping[str, Any]
    timeout: float
    endpoint: str = "chat/completions"

    @property
    def stream(self) -> bool:
        """Whether the answer comes in pieces."""
        return bool(self.body.get("stream"))


@dataclass(frozen=True)
class Served:
    """A model that a server offers; `max_model_len` in tokens, None where it does not tell."""

    name: str
    max_model_len: int | None


class Client:
    """Talks to one server. `base_url` may end in /v1 or not.

    `ca_file` is a certificate authority's file for a server with a certificate of its own.
    Raises `UsageError` for a URL, a key or a file that cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        ca_file: str | None = None,
        limits: Limits = Limits(),
    ) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        host = address.host_of(self.base_url)
        tls = address.tls(ca_file) if ca_file else True
        self._limits = limits
        self._runner = asyncio.Runner()
        self._http = httpx.AsyncClient(
            # Few bytes that unpack to gigabytes: no answer is taken compressed.
            headers={"Accept-Encoding": "identity"}
            | (address.authorization(api_key) if api_key else {}),
            verify=tls,
            # A proxy of the environment must not be used for this machine.
            trust_env=host not in ("127.0.0.1", "localhost", "::1"),
            timeout=httpx.Timeout(None, connect=limits.connect),
        )

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._http.aclose())
        self._runner.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def models(self, timeout: float = 10.0) -> list[str]:
        """The names under which the server serves; raises `RequestFailed`."""
        return [served.name for served in self.served(timeout)]

    def served(self, timeout: float = 10.0) -> list[Served]:
        """What the server serves; raises `RequestFailed`."""
        document = self._json("/v1/models", timeout)
        data = document.get("data") if isinstance(document, Mapping) else None
        if not isinstance(data, list):
            raise RequestFailed("bad-answer", "/v1/models: no list of models")
        return [
            Served(one["id"][:WORD], _length(one.get("max_model_len")))
            for one in data
            if isinstance(one, Mapping) and isinstance(one.get("id"), str)
        ]

    def version(self, timeout: float = 10.0) -> str | None:
        """vLLM's version as the server tells it; None where it has no /version."""
        try:
            document = self._json("/version", timeout)
        except RequestFailed as error:
            if error.kind == "http":
                return None
            raise
        version = document.get("version") if isinstance(document, Mapping) else None
        return version if isinstance(version, str) else None

    def metrics(self, timeout: float = 10.0) -> str:
        """The text of /metrics; raises `RequestFailed`."""
        return self._run(self._fetch("GET", "/metrics", timeout)).decode("utf-8", "replace")

    def count_tokens(
        self, model: str, messages: Sequence[Mapping[str, Any]], timeout: float = 10.0
    ) -> int | None:
        """How many tokens a conversation has for the server; None where it has no /tokenize."""
        body = {"model": model, "messages": [dict(message) for message in messages]}
        try:
            document = json_text.parsed(self._run(self._fetch("POST", "/tokenize", timeout, body)))
        except (RequestFailed, ValueError):
            return None
        return whole(document.get("count")) if isinstance(document, Mapping) else None

    def send(self, request: Request) -> Answer:
        """One answer; raises `RequestFailed` within the request's timeout."""
        return self._run(self._send(request))

    def send_all(
        self, requests: Sequence[Request], concurrency: int
    ) -> list[Answer | RequestFailed]:
        """Several answers, at most `concurrency` at once, in the order of their requests."""
        return self._run(self._send_all(requests, concurrency))

    # -- inside ------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end, or to an interrupt of this thread."""
        loop = self._runner.get_loop()

        async def watched() -> T:
            task = asyncio.ensure_future(work)
            with cancel.waking(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await task

        try:
            return self._runner.run(watched())
        except asyncio.CancelledError:
            cancel.check()
            raise

    async def _send_all(
        self, requests: Sequence[Request], concurrency: int
    ) -> list[Answer | RequestFailed]:
        slots = asyncio.Semaphore(concurrency)

        async def one(request: Request) -> Answer | RequestFailed:
            async with slots:
                try:
                    return await self._send(request)
                except RequestFailed as error:
                    return error

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def _send(self, request: Request) -> Answer:
        try:
            async with asyncio.timeout(request.timeout):
                return await self._exchange(request)
        except TimeoutError:
            limit = f"{request.timeout:g} s"
            raise RequestFailed("timeout", f"no complete answer within {limit}") from None

    async def _exchange(self, request: Request) -> Answer:
        url = f"{self.base_url}/v1/{request.endpoint}"
        began = time.monotonic()
        with translated():
            async with self._http.stream("POST", url, json=dict(request.body)) as response:
                await self._accept(response)
                if request.stream:
                    return await self._streamed(response, began)
                data = await self._whole(response)
        try:
            return read(json_text.parsed(data), time.monotonic() - began)
        except (ValueError, Malformed) as error:
            raise RequestFailed("bad-answer", f"not an answer: {error}") from error

    async def _streamed(self, response: httpx.Response, began: float) -> Answer:
        assembly = Assembly()
        try:
            async for event in self._events(response):
                assembly.add(event, time.monotonic() - began)
                if assembly.done:
                    break
        except (ValueError, Malformed) as error:
            raise RequestFailed("bad-answer", f"broken event in the stream: {error}") from error
        if not assembly.finished:
            raise RequestFailed("early-close", "the stream ended before the answer was complete")
        return assembly.answer(time.monotonic() - began)

    async def _events(self, response: httpx.Response) -> AsyncIterator[str]:
        """Events of a stream, bounded in silence between two pieces and in size altogether."""
        pieces = response.aiter_raw().__aiter__()
        events, size = EventStream(), 0
        while True:
            try:
                async with asyncio.timeout(self._limits.silence):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                break
            except TimeoutError:
                silence = f"{self._limits.silence:g} s"
                raise RequestFailed(
                    "stalled", f"the stream fell silent for {silence} in the middle"
                ) from None
            size += len(piece)
            self._check_size(size)
            for event in events.feed(piece):
                yield event
        for event in events.end():
            yield event

    async def _fetch(
        self, method: str, path: str, timeout: float, body: Mapping[str, Any] | None = None
    ) -> bytes:
        url = self.base_url + path
        try:
            async with asyncio.timeout(timeout):
                with translated():
                    async with self._http.stream(method, url, json=body) as response:
                        await self._accept(response)
                        return await self._whole(response)
        except TimeoutError:
            raise RequestFailed("timeout", f"{path}: no answer within {timeout:g} s") from None

    def _json(self, path: str, timeout: float) -> Any:
        try:
            return json_text.parsed(self._run(self._fetch("GET", path, timeout)))
        except ValueError as error:
            raise RequestFailed("bad-answer", f"{path}: not JSON: {error}") from error

    async def _accept(self, response: httpx.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip()
        if encoding.lower() != "identity":
            said = f"the answer is encoded as {encoding[:WORD]!r}, although identity was asked for"
            raise RequestFailed("bad-answer", said, response.status_code)
        if response.status_code == 200:
            return
        said = _words(await self._whole(response))
        raise RequestFailed(
            kind_of(response.status_code),
            f"HTTP {response.status_code}: {said or response.reason_phrase}",
            response.status_code,
        )

    async def _whole(self, response: httpx.Response) -> bytes:
        parts = bytearray()
        async for part in response.aiter_raw():
            parts += part
            self._check_size(len(parts))
        return bytes(parts)

    def _check_size(self, size: int) -> None:
        if size > self._limits.size:
            raise RequestFailed("too-large", f"the answer is larger than {self._limits.size} bytes")


def _words(body: bytes) -> str:
    """What a refusal says, on one line; a page for browsers is not it, and only named."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return "(a web page, not an API's answer)"
    return " ".join(text.split())[:500]


def _length(value: Any) -> int | None:
    return whole(value) or None
