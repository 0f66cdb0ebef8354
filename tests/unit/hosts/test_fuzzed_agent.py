"""Ten thousand messages that no agent sends: every conversation ends in time, as exit code 4."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from deployctl.errors import HostError
from deployctl.hosts.session import Call
from tests.unit.hosts.scripted_agent import HASTY, READY, Message, scripted

MESSAGES = 10_000
SESSIONS = 200
HURRIED = replace(HASTY, start=0.05, ping=0.02, answer=0.02)
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    "",
    "x" * 3000,
    "\x1b[31m\x00\ud800",
    [],
    {},
    [[[[[]]]]],
    {"id": {}},
]


class Fuzz:
    """Messages made from proper ones by one or more strokes of bad luck."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.said = 0

    def message(self, number: int) -> bytes:
        self.said += 1
        kind = self.random.choice((self._changed, self._cut, self._noise, self._huge, self._late))
        return kind(number)

    def _proper(self, number: int) -> Message:
        fault = {"kind": "k", "message": "m", "detail": None}
        choices: list[Message] = [
            READY,
            {"need": "0" * 64},
            {"refused": "root", "why": "w"},
            {"pong": self.random.randrange(99)},
            {"id": number, "call": 0, "event": {"text": "t", "offset": 1}},
            {"id": number, "results": [{"value": {"state": "running"}}, {"error": fault}]},
        ]
        copied: Message = json.loads(json.dumps(self.random.choice(choices)))
        return copied

    def _changed(self, number: int) -> bytes:
        """A value in it is replaced, taken away or doubled."""
        message = self._proper(number)
        places = list(_places(message))
        holder, key = self.random.choice(places)
        if self.random.random() < 0.7:
            holder[key] = self.random.choice(ODD)
        elif isinstance(holder, dict):
            del holder[key]
        else:
            holder.append(holder[key])
        return json.dumps(message).encode() + b"\n"

    def _cut(self, number: int) -> bytes:
        line = json.dumps(self._proper(number)).encode()
        return line[: self.random.randrange(len(line))] + self.random.choice((b"\n", b""))

    def _noise(self, number: int) -> bytes:
        return self.random.randbytes(self.random.randrange(200)) + b"\n"

    def _huge(self, number: int) -> bytes:
        size = self.random.randrange(5000, 50_000)
        bodies = (b"9" * size, b"[" * size, b'"' + b"x" * size + b'"', b"[" + b"1," * size + b"1]")
        body = self.random.choice(bodies)
        return b'{"id": %d, "results": [{"value": %b}]}\n' % (number, body)

    def _late(self, number: int) -> bytes:
        """About a request that was never made, or that is long over."""
        other = self.random.choice((0, -5, number + 1, number + 1000, 10**30))
        return json.dumps({"id": other, "results": [{"value": 1}]}).encode() + b"\n"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


@pytest.mark.parametrize("when", ["before the first word", "to requests"])
def test_every_conversation_ends(when: str) -> None:
    fuzz = Fuzz(8)
    before = threading.active_count()
    calls = [
        Call("units.state", profile="a", unit="server"),
        Call("files.read", path="/x"),
    ]
    ends = {"answered": 0, "lost": 0}
    each = MESSAGES // 2 // SESSIONS

    def script(message: Message) -> Iterable[bytes]:
        about = "hash" if when == "before the first word" else "calls"
        if about in message:
            for _ in range(each):
                yield fuzz.message(message.get("id", 1))

    # A session that is lost early leaves some of its messages unsaid.
    while sum(ends.values()) < SESSIONS or fuzz.said < MESSAGES // 2:
        try:
            with scripted(script, HURRIED) as session:
                session.ask(calls)
            ends["answered"] += 1
        except HostError as error:
            assert error.exit_code == 4
            ends["lost"] += 1
    assert ends["lost"] > sum(ends.values()) * 0.9
    assert threading.active_count() <= before
