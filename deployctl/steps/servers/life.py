"""Whether a server generates: the only proof that it lives is a completion. Pure.

With its engine stopped, vLLM's /health answers 200 in a millisecond, and its gauges of running and
waiting requests read 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.answers import HttpAnswer
from deployctl.config.profile import Profile
from deployctl.hosts.operations import network
from deployctl.hosts.session import Call
from deployctl.steps.facts import known_unit
from deployctl.steps.interface import Answers, Key, Question
from deployctl.steps.models.sources import Secret
from deployctl.steps.servers.client import api_key
from deployctl.steps.servers.in_flight import counted
from deployctl.steps.servers.stopping import base_url
from deployctl.vllm.client.outcome import REFUSALS, kind_of
from deployctl.vllm.client.server_words import of_body
from deployctl.vllm.counters.metrics import generated
from deployctl.vllm.counters.unreadable import Unreadable

LIFE, LOAD = Key[HttpAnswer]("life"), Key[HttpAnswer]("load")
MADE = Key[int | None]("made")
WITHIN = 10.0
"""Seconds for a completion of one token."""


def questions(profile: Profile) -> list[Question[Any]]:
    """A completion of one token, and how many requests are in flight."""
    url = base_url(profile)
    key = api_key(profile)
    headers: dict[str, str] = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = Secret(f"Bearer {key}")
    body = {"model": profile.model.served_name, "prompt": "1", "max_tokens": 1, "temperature": 0}
    completion = Call(
        network.http,
        method="POST",
        url=f"{url}/v1/completions",
        headers=headers,
        body=json.dumps(body),
        timeout=WITHIN,
    )
    return [
        Question(LIFE, completion),
        Question(LOAD, Call(network.http, method="GET", url=f"{url}/load", timeout=5)),
    ]


def generates(answers: Answers) -> tuple[bool | None, str]:
    """Whether it generates, and what shows or hides it; None where that is not known."""
    answer = answers.get(LIFE)
    if answer is None:
        unknown = answers.unknown(LIFE)
        return None, unknown.reason if unknown else "not asked"
    status = answer["status"]
    tokens = answers.get(MADE)
    if status is None and tokens:
        return True, f"it is busy: {tokens} tokens for others while ours had to wait"
    if status is None:
        flying = in_flight(answers)
        beside = "" if flying is None else f", {flying} requests in flight"
        return False, f"no completion: {answer['error']}{beside}"
    if status == 200 and _completed(answer["body"]):
        return True, ""
    said = of_body(answer["body"].encode())
    words = f": {said.text}" if said.text else ""
    # An error may come with the status of an answer.
    kind = kind_of(said.code or status)
    if kind in REFUSALS:
        wants = ": it wants an API key" if kind == "key" else ""
        return None, f"/v1/completions answers {said.code or status}{words}{wants}"
    if status == 200:
        return False, f"an answer without a completion{words}"
    if status in (404, 405):
        return None, f"/v1/completions answers {status}{words or ': it has no such endpoint'}"
    return False, f"/v1/completions answers {status}{words}"


def waits(answers: Answers) -> bool:
    """Whether no completion came in time: it hangs, or is busy with those of others."""
    answer = answers.get(LIFE)
    return answer is not None and answer["status"] is None


def made(readings: Sequence[HttpAnswer]) -> int | None:
    """Tokens that a server generated between two readings of /metrics; a completion of others'
    is proof of life as well. None where they do not tell."""
    try:
        first, last = (generated(one["body"]) if one["status"] == 200 else None for one in readings)
    except Unreadable:
        return None
    return None if first is None or last is None else max(0, last - first)


def refuses(answers: Answers) -> bool:
    """Whether it is alive and allows no request: without its key, or too often."""
    answer = answers.get(LIFE)
    if answer is None or not answer["status"]:
        return False
    return kind_of(of_body(answer["body"].encode()).code or answer["status"]) in REFUSALS


def in_flight(answers: Answers) -> int | None:
    """Requests that the server counts at its door; None where it does not count them. One of
    them may be our own."""
    return counted(known_unit(answers), answers.get(LOAD))


def _completed(body: str) -> bool:
    try:
        document: Mapping[str, Any] = json.loads(body)
        return bool(document["choices"])
    except (ValueError, KeyError, TypeError):
        return False
