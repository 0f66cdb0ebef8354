"""What a server says in its own words when it does not answer: from JSON, events or a web page.

Forms of errors: OpenAI's and vLLM's `{"error": {"message", "type", "code"}}`, older vLLM's
`{"object": "error", "message"}`, FastAPI's `{"detail"}`, problem details (RFC 9457), and the
`message`, `msg`, `errors` and `fault` of gateways. A web page says its title and text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from deployctl.vllm import json_text
from deployctl.vllm.client.event_stream import EventStream

LONGEST = 500
READ = 1 << 16
"""Bytes of a body that are looked at."""
HIDDEN = ("script", "style", "head")
EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How a stream of events begins."""


@dataclass(frozen=True)
class Words:
    """What a body says; `code` is the status that an error in it names, None without one."""

    text: str
    code: int | None = None


def of_body(body: bytes) -> Words:
    """What a refusal says, on one line; empty for an empty body."""
    found = error_in(body)
    if found is not None:
        return found
    text = body[:READ].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return Words(f"a web page, not an API's answer: {_page(text)}".rstrip(": "))
    return Words(_line(text))


def are_events(body: bytes) -> bool:
    """Whether a body is a stream of events."""
    return body.lstrip().startswith(EVENTS)


def error_in(body: bytes) -> Words | None:
    """The error that a body carries, whatever its status is; None where it carries none."""
    if are_events(body):
        return _error_event(body)
    try:
        return error_of(json_text.parsed(body[:READ]))
    except ValueError:
        return None


def _error_event(body: bytes) -> Words | None:
    """The first error among events."""
    stream = EventStream()
    for data in [*stream.feed(body[:READ]), *stream.end()]:
        try:
            found = error_of(json_text.parsed(data))
        except ValueError:
            found = None
        if found is not None:
            return found
    return None


def error_of(document: Any) -> Words | None:
    """The error in a JSON document; None for an answer, and for what is in no known form."""
    if isinstance(document, list) and document:
        return error_of(document[0])
    if not isinstance(document, Mapping) or document.get("choices"):
        return None
    error = document.get("error")
    for found in (error, document.get("errors"), document.get("fault")):
        if found:
            said = _message(found)
            return Words(_line(said), _code(found) or _code(document)) if said else None
    if document.get("object") == "error" or error is not None or "choices" not in document:
        said = _message(document)
        return Words(_line(said), _code(document)) if said else None
    return None


def _message(found: Any) -> str:
    """The sentence in an error, with its type where that says more."""
    if isinstance(found, str):
        return found
    if isinstance(found, list):
        return "; ".join(said for one in found[:3] if (said := _message(one)))
    if not isinstance(found, Mapping):
        return ""
    for key in ("message", "detail", "msg", "faultstring", "error_description", "title"):
        said = _message(found.get(key))
        if said:
            kind = found.get("type")
            return f"{said} ({kind})" if isinstance(kind, str) and kind not in said else said
    return ""


def _code(found: Any) -> int | None:
    if not isinstance(found, Mapping):
        return None
    for key in ("code", "status", "status_code"):
        value = found.get(key)
        if isinstance(value, str) and value.isdecimal() and len(value) == 3:
            value = int(value)
        if type(value) is int and 400 <= value < 600:
            return value
    return None


def _line(text: str) -> str:
    return " ".join(text.split())[:LONGEST]


def _page(text: str) -> str:
    page = _Page()
    page.feed(text)
    return _line(" ".join(page.said()))


class _Page(HTMLParser):
    """The title and the text of a web page."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self._parts: list[tuple[bool, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in (*HIDDEN, "title"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        within = self._open[-1] if self._open else ""
        if data.strip() and within not in HIDDEN:
            self._parts.append((within == "title", data.strip()))

    def said(self) -> Iterator[str]:
        """The title, then what it does not say."""
        title = " ".join(text for is_title, text in self._parts if is_title)
        if title:
            yield title
        yield from (text for is_title, text in self._parts if not is_title and text not in title)
