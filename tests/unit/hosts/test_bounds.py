"""A session ends within its bounds, whatever the other side says or does not say."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts import messages
from deployctl.hosts.session import Call
from tests.unit.hosts.scripted_agent import (
    HASTY,
    PATIENT,
    READY,
    Message,
    answering,
    scripted,
)

DEEP = b"[" * 100_000 + b"]" * 100_000
BROKEN: dict[str, Message | bytes] = {
    "no JSON": b"hello\n",
    "half a message": b'{"id": 1, "results": [{"val\n',
    "bytes": bytes(range(128, 256)) + b"\n",
    "a list": b"[]\n",
    "an empty object": b"{}\n",
    "a word": b"null\n",
    "an unknown key": {"id": 0, "answers": []},
    "two kinds at once": {"id": 0, "results": [{"value": 1}], "event": {}, "call": 0},
    "results that are none": {"id": 0, "results": {"value": 1}},
    "a result that is none": {"id": 0, "results": [1]},
    "a result without a value": {"id": 0, "results": [{}]},
    "an error that is text": {"id": 0, "results": [{"error": "bad"}]},
    "an error without a kind": {"id": 0, "results": [{"error": {"message": "", "detail": 1}}]},
    "too many results": {"id": 0, "results": [{"value": 1}, {"value": 2}]},
    "no results": {"id": 0, "results": []},
    "a number that is text": {"id": "1", "results": [{"value": 1}]},
    "a number that is a list": {"id": [1], "results": [{"value": 1}]},
    "a number of nobody": {"id": 77, "results": [{"value": 1}]},
    "a number below one": {"id": -1, "results": [{"value": 1}]},
    "an event that is none": {"id": 0, "call": 0, "event": 7},
    "a pong that is none": {"pong": None},
    "5000 digits": b'{"id": 1, "results": [{"value": ' + b"7" * 5000 + b"}]}\n",
    "a float of 5000 digits as a number": b'{"pong": 1e' + b"7" * 5000 + b"}\n",
    "deep nesting": b'{"id": 1, "results": [{"value": ' + DEEP + b"}]}\n",
    "deep nesting alone": DEEP + b"\n",
    "many parts": b'{"id": 1, "results": [{"value": [' + b"0," * 4_000_001 + b"0]}]}\n",
    "a second beginning": READY,
    "a program asked for in the middle": {"need": "0" * 64},
    "a refusal in the middle": {"refused": "python", "why": "2.7"},
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_understood_is_a_lost_connection(said: Message | bytes) -> None:
    with scripted(answering(said), PATIENT) as session:
        with pytest.raises(ConnectionLost) as caught:
            session.call("files.read", path="/x")
        assert caught.value.exit_code == 4
        assert "cannot be understood" in caught.value.what and caught.value.why
        with pytest.raises(ConnectionLost):
            session.call("files.read", path="/x")


def test_the_reason_names_the_place() -> None:
    broken = {"id": 0, "results": [{"error": {"kind": 3, "message": "m", "detail": None}}]}
    with scripted(answering(broken)) as session, pytest.raises(ConnectionLost) as caught:
        session.call("files.read", path="/x")
    assert "results[0].error.kind is 3, not text" in caught.value.why


class TestSilence:
    def test_pings_are_no_answer(self) -> None:
        with scripted(answering()) as session, pytest.raises(ConnectionLost) as caught:
            session.call("files.read", path="/x")
        assert "hangs" in caught.value.what
        assert "nothing to files.read for 0.2 s" in caught.value.why

    def test_a_stream_is_ended_too(self) -> None:
        with scripted(answering()) as session:
            stream = session.stream("files.put", path="/x", size=1, sha256="0")
            with pytest.raises(ConnectionLost, match="hangs"):
                stream.result()

    def test_who_was_asked_to_wait_has_longer(self) -> None:
        assert Call("releases.lock", wait=30.0).patience > 30
        assert Call("files.read", path="/x").patience == 0

    def test_signs_of_work_are_an_answer_for_a_while(self) -> None:
        beats: list[Message] = []

        def script(message: Message) -> Iterable[Message | bytes]:
            if "calls" in message:
                beats.append({"id": message["id"], "call": 0, "event": {}})
            if "ping" in message and beats:
                yield beats[0]
                if message["ping"] > 30:
                    yield {"id": beats[0]["id"], "results": [{"value": "slow"}]}

        # Longer altogether than the time between two words.
        with scripted(script, replace(HASTY, answer=1.0)) as session:
            assert session.call("modules.run") == "slow"

    def test_signs_of_work_without_end_are_ended(self) -> None:
        def script(message: Message) -> Iterable[Message | bytes]:
            if "ping" in message:
                yield {"id": 1, "call": 0, "event": {}}

        limits = replace(HASTY, whole=0.5)
        with scripted(script, limits) as session, pytest.raises(ConnectionLost, match="hangs"):
            session.call("models.checksums", path="/x", names=[])


class TestQueues:
    def test_events_that_pile_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("deployctl.hosts.link.MOST_QUEUED", 10_000)
        piled = [{"id": 0, "call": 0, "event": {"text": "x" * 100}}] * 200
        with scripted(answering(*piled), PATIENT) as session:
            stream = session.stream("jobs.follow", id="x")
            with pytest.raises(ConnectionLost, match="more than can be processed"):
                stream.result()

    def test_events_that_are_taken_up_do_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("deployctl.hosts.link.MOST_QUEUED", 10_000)
        told: list[Any] = []

        def script(message: Message) -> Iterable[Message | bytes]:
            if "calls" in message or "feed" in message:
                yield {"id": 1, "call": 0, "event": {"text": "x" * 5000}}

        with scripted(script, PATIENT) as session:
            stream = session.stream("jobs.follow", id="x")
            for _ in range(20):
                told.append(stream.next())
                stream.feed("more")
        assert len(told) == 20 and None not in told

    def test_what_a_host_does_not_take(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("deployctl.hosts.link.MOST_QUEUED", 10_000)
        stuck = threading.Event()

        def script(message: Message) -> Iterable[Message | bytes]:
            if "calls" in message:
                stuck.wait()
            return ()

        try:
            with scripted(script, PATIENT) as session:
                stream = session.stream("files.put", path="/x", size=1, sha256="0")
                for _ in range(100):
                    stream.feed("x" * 1000)
                with pytest.raises(ConnectionLost, match="takes no more"):
                    stream.result()
                stuck.set()
        finally:
            stuck.set()

    def test_beginnings_without_end(self) -> None:
        def script(message: Message) -> Iterable[Message | bytes]:
            if "hash" in message:
                for _ in range(1000):
                    yield READY

        with scripted(script, PATIENT) as session, pytest.raises(ConnectionLost):
            session.call("files.read", path="/x")


def test_what_comes_late_is_dropped() -> None:
    late: list[Message] = []

    def script(message: Message) -> Iterable[Message | bytes]:
        if "calls" in message and not late:
            late.append({"id": message["id"], "results": [{"value": "late"}]})
        elif "calls" in message:
            yield late[0]
            yield {"id": message["id"], "results": [{"error": _fault("no")}]}

    with scripted(script, PATIENT) as session:
        given_up = session.stream("files.put", path="/x", size=1, sha256="0")
        session._link.forget(given_up._request)
        with pytest.raises(RemoteError, match="no"):
            session.call("files.read", path="/x")


def _fault(kind: str) -> Message:
    return {"kind": kind, "message": kind, "detail": None}


def test_a_line_is_shown_without_what_a_terminal_obeys() -> None:
    assert messages.shown(b"\x1b[2Jboo\xff\x00" * 50).isprintable()
