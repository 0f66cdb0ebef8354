"""One request and its answer over HTTP, bounded in time and size, whatever the server does.

Several can run at once. Nothing is retried: how often a server refuses is something to know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deployctl.vllm import json_text
from deployctl.vllm.client import server_words
from deployctl.vllm.client.answers import WORD, Answer, Assembly, Malformed, ServerError, read
from deployctl.vllm.client.event_stream import EventStream
from deployctl.vllm.client.outcome import RequestFailed, error_answer, refused, translated

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class Limits:
    """Bounds of one request: seconds to connect, of silence once a stream began, and bytes."""

    connect: float = 10.0
    silence: float = 60.0
    size: int = 16 * 1024 * 1024


DEFAULT = Limits()


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


class Exchange:
    """Requests to the server at one URL."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, limits: Limits) -> None:
        self._http = http
        self._base_url = base_url
        self._limits = limits

    async def send(self, request: Request) -> Answer:
        """One answer; raises `RequestFailed` within the request's timeout."""
        try:
            async with asyncio.timeout(request.timeout):
                return await self._exchange(request)
        except TimeoutError:
            limit = f"{request.timeout:g} s"
            raise RequestFailed("timeout", f"no complete answer within {limit}") from None

    async def _exchange(self, request: Request) -> Answer:
        url = f"{self._base_url}/v1/{request.endpoint}"
        began = time.monotonic()
        with translated():
            async with self._http.stream("POST", url, json=dict(request.body)) as response:
                await self._accept(response)
                if request.stream and not _plain(response):
                    return await self._streamed(response, began)
                data = await self._whole(response)
        seconds = time.monotonic() - began
        try:
            return read(json_text.parsed(data), seconds)
        except (ValueError, Malformed) as error:
            raise no_answer(data, f"not an answer: {error}") from error

    async def _streamed(self, response: httpx.Response, began: float) -> Answer:
        assembly = Assembly()
        head = bytearray()
        try:
            async for event in self._events(response, head):
                assembly.add(event, time.monotonic() - began)
                if assembly.done:
                    break
        except ServerError as error:
            raise error_answer(error.words.text, error.words.code) from error
        except (ValueError, Malformed) as error:
            raise no_answer(bytes(head), f"broken event in the stream: {error}") from error
        if not assembly.finished:
            unfinished = "the stream ended before the answer was complete"
            if head and not server_words.are_events(bytes(head)):
                raise no_answer(bytes(head), unfinished)
            raise RequestFailed("early-close", unfinished)
        return assembly.answer(time.monotonic() - began)

    async def _events(self, response: httpx.Response, head: bytearray) -> AsyncIterator[str]:
        """Events of a stream, bounded in silence between two pieces and in size altogether.

        `head` gets the beginning of what came.
        """
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
            head += piece[: server_words.READ - len(head)]
            for event in events.feed(piece):
                yield event
        for event in events.end():
            yield event

    async def fetch(
        self, method: str, path: str, timeout: float, body: Mapping[str, Any] | None = None
    ) -> bytes:
        """The body of an answer; raises `RequestFailed` within `timeout` seconds."""
        url = self._base_url + path
        try:
            async with asyncio.timeout(timeout):
                with translated():
                    async with self._http.stream(method, url, json=body) as response:
                        await self._accept(response)
                        return await self._whole(response)
        except TimeoutError:
            raise RequestFailed("timeout", f"{path}: no answer within {timeout:g} s") from None

    async def _accept(self, response: httpx.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip()
        if encoding.lower() != "identity":
            said = f"the answer is encoded as {encoding[:WORD]!r}, although identity was asked for"
            raise RequestFailed("bad-answer", said, response.status_code)
        if response.status_code == 200:
            return
        words = server_words.of_body(await self._whole(response)).text or response.reason_phrase
        if "Location" in response.headers:
            words += f" (moved to {response.headers['Location'][:WORD]})"
        raise refused(response.status_code, words, response.headers.get("Retry-After"))

    async def _whole(self, response: httpx.Response) -> bytes:
        parts = bytearray()
        async for part in response.aiter_raw():
            parts += part
            self._check_size(len(parts))
        return bytes(parts)

    def _check_size(self, size: int) -> None:
        if size > self._limits.size:
            raise RequestFailed("too-large", f"the answer is larger than {self._limits.size} bytes")


def _plain(response: httpx.Response) -> bool:
    """Whether an answer says that it is not a stream of events, although one was asked for."""
    kind = response.headers.get("Content-Type", "").lower()
    return "json" in kind or "html" in kind


def no_answer(body: bytes, problem: str) -> RequestFailed:
    """The failure of a body that is not an answer: the error that it carries, else what it is."""
    found = server_words.error_in(body)
    if found is not None:
        return error_answer(found.text, found.code)
    words = server_words.of_body(body).text[:WORD]
    return RequestFailed("bad-answer", f"{problem}: {words}" if words else problem)
