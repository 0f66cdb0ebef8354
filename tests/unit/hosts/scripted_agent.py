"""An agent stand-in of this very process: what it says to each message is up to the test."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from deployctl.errors import HostError
from deployctl.hosts.interface import Ending
from deployctl.hosts.session import Limits, Session

Message = dict[str, Any]
Script = Callable[[Message], Iterable[Message | bytes]]
READY = {
    "ready": {
        "python": "3.9.2",
        "executable": "/usr/bin/python3",
        "pid": 4242,
        "uid": 0,
        "home": "/root",
        "root": "/var/lib/deployctl",
        "hostname": "scripted",
        "machine": "x86_64",
        "boot_id": "b",
    }
}
HASTY = Limits(start=60, ping=0.05, dead=60, answer=0.2, whole=5)
"""Bounds of a session that a test can wait for."""
PATIENT = replace(HASTY, answer=60, whole=60)
"""Bounds that no busy machine reaches, for tests of what is answered."""


class ScriptedHost:
    """A way to the stand-in: it starts and answers pings, and `script` says the rest."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self.name = name
        self._script = script

    def open(self, argv: Sequence[str]) -> ScriptedChannel:
        return ScriptedChannel(self._script)

    def explain(self, ending: Ending | None) -> HostError | None:
        return None

    def close(self) -> None:
        return


class ScriptedChannel:
    """The stand-in's streams: a message to it makes it say its answers at once."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def send(self, data: bytes) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            for answer in self._script(message):
                self.say(answer)
            if "hash" in message:
                self.say(READY)
            elif "ping" in message:
                self.say({"pong": message["ping"]})

    def say(self, what: Message | bytes) -> None:
        self._said.put(what if isinstance(what, bytes) else json.dumps(what).encode() + b"\n")

    def receive(self) -> bytes:
        return self._said.get()

    def ending(self) -> Ending:
        return Ending(None, "")

    def close(self) -> None:
        self._said.put(b"")


def scripted(script: Script, limits: Limits = HASTY) -> Session:
    """A session with the stand-in."""
    return Session(ScriptedHost(script), limits=limits)


def answering(*answers: Message | bytes) -> Script:
    """Says these to every request, with the request's number in place of `id` 0."""

    def script(message: Message) -> Iterable[Message | bytes]:
        if "calls" not in message:
            return
        for answer in answers:
            if isinstance(answer, dict) and answer.get("id") == 0:
                answer = {**answer, "id": message["id"]}
            yield answer

    return script
