"""A bounded client of an OpenAI-compatible server: every request ends, with an answer or a reason.

Requests run on an event loop of the client's own, so that one absolute deadline covers all of a
request (connecting, headers that trickle, a stream that hangs), and so that several can run at
once. Nothing is retried: how often a server refuses is something to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from deployctl import cancel
from deployctl.vllm import json_text
from deployctl.vllm.client import address, server_words
from deployctl.vllm.client.answers import WORD, Answer, whole
from deployctl.vllm.client.exchange import DEFAULT, Exchange, Limits, Request, no_answer
from deployctl.vllm.client.outcome import RequestFailed, error_answer

__all__ = ["Client", "Limits", "Request", "Served"]

T = TypeVar("T")


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
        limits: Limits = DEFAULT,
    ) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        host = address.host_of(self.base_url)
        import httpx  # brings rich and click: a sixth of a command that sends no request

        self._runner = asyncio.Runner()
        self._http = httpx.AsyncClient(
            # Few bytes that unpack to gigabytes: no answer is taken compressed.
            headers={"Accept-Encoding": "identity"}
            | (address.authorization(api_key) if api_key else {}),
            verify=address.tls(self.base_url, ca_file),
            # A proxy of the environment must not be used for this machine.
            trust_env=host not in ("127.0.0.1", "localhost", "::1"),
            timeout=httpx.Timeout(None, connect=limits.connect),
        )
        self._exchange = Exchange(self._http, self.base_url, limits)

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._http.aclose())
        self._runner.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def models(self, timeout: float = 10.0) -> list[str]:
        """The names under which the server serves; raises `RequestFailed`."""
        return [served.name for served in self.served(timeout)]

    def served(self, timeout: float = 10.0) -> list[Served]:
        """What the server serves; raises `RequestFailed`."""
        document = self._json("/v1/models", timeout)
        data = document.get("data") if isinstance(document, Mapping) else None
        if not isinstance(data, list):
            said = server_words.error_of(document)
            if said is not None:
                raise error_answer(said.text, said.code)
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
        return self._run(self._exchange.fetch("GET", "/metrics", timeout)).decode(
            "utf-8", "replace"
        )

    def in_flight(self, timeout: float = 2.0) -> int | None:
        """How many requests the server counts at its door; None where it does not tell. One that
        was not started to count tells 0."""
        try:
            document = self._json("/load", timeout)
        except RequestFailed:
            return None
        return whole(document.get("server_load")) if isinstance(document, Mapping) else None

    def count_tokens(
        self, model: str, messages: Sequence[Mapping[str, Any]], timeout: float = 10.0
    ) -> int | None:
        """How many tokens a conversation has for the server; None where it has no /tokenize."""
        body = {"model": model, "messages": [dict(message) for message in messages]}
        try:
            document = json_text.parsed(
                self._run(self._exchange.fetch("POST", "/tokenize", timeout, body))
            )
        except (RequestFailed, ValueError):
            return None
        return whole(document.get("count")) if isinstance(document, Mapping) else None

    def send(self, request: Request) -> Answer:
        """One answer; raises `RequestFailed` within the request's timeout."""
        return self._run(self._exchange.send(request))

    def send_all(
        self,
        requests: Sequence[Request],
        concurrency: int,
        hopeless: Callable[[RequestFailed], bool] = lambda failure: False,
    ) -> list[Answer | RequestFailed]:
        """Several answers, at most `concurrency` at once, in the order of their requests.

        After a failure that is `hopeless` the rest is given up, and ends with that failure too.
        """
        return self._run(self._send_all(requests, concurrency, hopeless))

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
        self,
        requests: Sequence[Request],
        concurrency: int,
        hopeless: Callable[[RequestFailed], bool],
    ) -> list[Answer | RequestFailed]:
        slots = asyncio.Semaphore(concurrency)
        given_up: asyncio.Future[RequestFailed] = asyncio.get_running_loop().create_future()

        async def one(request: Request) -> Answer | RequestFailed:
            async with slots:
                try:
                    return await self._exchange.send(request)
                except RequestFailed as error:
                    if hopeless(error) and not given_up.done():
                        given_up.set_result(error)
                    return error

        tasks = [asyncio.create_task(one(request)) for request in requests]
        everything = asyncio.gather(*tasks, return_exceptions=True)
        ends: list[asyncio.Future[Any]] = [everything, given_up]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await everything
        return [given_up.result() if task.cancelled() else task.result() for task in tasks]

    def _json(self, path: str, timeout: float) -> Any:
        body = self._run(self._exchange.fetch("GET", path, timeout))
        try:
            return json_text.parsed(body)
        except ValueError as error:
            raise no_answer(body, f"{path}: not JSON: {error}") from error


def _length(value: Any) -> int | None:
    return whole(value) or None
