"""How a request can end without an answer, and what httpx says in these words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Kind = Literal[
    "refused",
    "timeout",
    "stalled",
    "early-close",
    "bad-answer",
    "too-large",
    "busy",
    "unavailable",
    "key",
    "forbidden",
    "http",
]
REFUSALS = ("key", "forbidden", "busy")
"""Ends of a request that say nothing about the server but that it is alive."""

FORBIDDEN = (402, 403, 407, 451)
"""Statuses with which a server, or a proxy before it, refuses a client: no credit, no right, no
login at the proxy, no permission by law."""


class RequestFailed(Exception):
    """A request without a usable answer.

    `kind`: refused (no connection) · timeout (the whole time was used up) · stalled (it fell
    silent in the middle) · early-close · bad-answer (not the JSON of an answer) · too-large ·
    busy (429) · unavailable (502, 503, 504, and those of proxies from 520 on) · key (401) ·
    forbidden (402, 403, 407, 451) · http (any other status). `status` is the HTTP status, or that
    which an error in an answer names.
    """

    def __init__(self, kind: Kind, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


def refused(status: int, words: str, retry_after: str | None = None) -> RequestFailed:
    """An answer with a status other than 200, in the server's own words."""
    later = f" (Retry-After: {retry_after[:40]})" if retry_after else ""
    return RequestFailed(kind_of(status), f"HTTP {status}: {words}{later}", status)


def error_answer(words: str, code: int | None) -> RequestFailed:
    """An error that came with the status of an answer."""
    kind = "bad-answer" if code is None else kind_of(code)
    return RequestFailed(kind, f"the server answered with an error: {words}", code)


@contextmanager
def translated() -> Iterator[None]:
    """What httpx raises, as the outcome of a request."""
    import httpx

    try:
        yield
    except httpx.ConnectTimeout as error:
        raise RequestFailed("refused", "no connection within the limit") from error
    except httpx.ConnectError as error:
        raise RequestFailed("refused", f"no connection: {error}") from error
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
        raise RequestFailed("early-close", f"the connection closed early: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RequestFailed("http", f"the request failed: {error}") from error


def kind_of(status: int) -> Kind:
    """The outcome that an HTTP status other than 200 stands for."""
    if status in (502, 503, 504) or 520 <= status <= 599:
        return "unavailable"
    kinds: dict[int, Kind] = {401: "key", 429: "busy"}
    return "forbidden" if status in FORBIDDEN else kinds.get(status, "http")
