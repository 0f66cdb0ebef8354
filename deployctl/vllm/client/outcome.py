"""How a request can end without an answer, and what httpx says in these words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import httpx

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
    "http",
]


class RequestFailed(Exception):
    """A request without a usable answer.

    `kind`: refused (no connection) · timeout (the whole time was used up) · stalled (it fell
    silent in the middle) · early-close · bad-answer (not the JSON of an answer) · too-large ·
    busy (429) · unavailable (503) · key (401, 403) · http (any other status).
    """

    def __init__(self, kind: Kind, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@contextmanager
def translated() -> Iterator[None]:
    """What httpx raises, as the outcome of a request."""
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
    kinds: dict[int, Kind] = {401: "key", 403: "key", 429: "busy", 503: "unavailable"}
    return kinds.get(status, "http")
