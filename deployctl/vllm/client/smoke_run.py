"""Ask a server the smoke requests, one after the other, and say how each went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.context_window import ContextWindow, context_window
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.smoke import Expectation, Result, check, tokens_per_second, worst

SHOWN = 2000
"""Characters of an answer that a report keeps."""


@dataclass(frozen=True)
class Asked:
    """One smoke request: its body, its bound in seconds, and what is expected of the answer.

    `prompt_tokens` lengthens the last message with filler to at least this many tokens.
    """

    name: str
    body: Mapping[str, Any]
    timeout: float
    expected: Expectation
    prompt_tokens: int | None = None


def run(client: Client, asked: Sequence[Asked], told: Callable[[str, str], None]) -> dict[str, Any]:
    """The evidence of a smoke check: the verdict, and each check with its request and result.

    `told` hears each request's name and verdict as it ends.
    """
    checks = []
    verdicts = []
    window = context_window(client, str(asked[0].body["model"]))
    for one in asked:
        one, note = _fitted(client, window, one)
        answer = _send(client, one)
        result = check(answer, one.expected)
        if note:
            result = replace(result, notes=(*result.notes, note))
        told(one.name, result.verdict)
        verdicts.append(result.verdict)
        checks.append(
            {"name": one.name, "request": dict(one.body), "result": _told(answer, result)}
        )
    return {"verdict": worst(verdicts), "checks": checks}


def _send(client: Client, asked: Asked) -> Answer | RequestFailed:
    try:
        return client.send(Request(asked.body, asked.timeout))
    except RequestFailed as error:
        return error


def _fitted(client: Client, window: ContextWindow, asked: Asked) -> tuple[Asked, str]:
    """The request with a prompt as long as meant and an answer that fits; and what was changed."""
    body, expected = dict(asked.body), asked.expected
    if asked.prompt_tokens is not None:
        expected = replace(expected, prompt_tokens=asked.prompt_tokens)
        *before, last = body["messages"]
        if isinstance(last.get("content"), str):
            text = window.lengthened(last["content"], asked.prompt_tokens)
            body["messages"] = [*before, {**last, "content": text}]
    wanted = body["max_tokens"]
    if not isinstance(wanted, int):
        return replace(asked, body=body, expected=expected), ""
    body["max_tokens"] = window.room(client, body["messages"], wanted)
    note = ""
    if body["max_tokens"] < wanted:
        note = (
            f"max_tokens is {body['max_tokens']} instead of {wanted}: "
            f"the server's context holds {window.tokens} tokens"
        )
    return replace(asked, body=body, expected=expected), note


def _told(answer: Answer | RequestFailed, result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {
        "verdict": result.verdict,
        "problems": list(result.problems),
        "notes": list(result.notes),
    }
    if isinstance(answer, RequestFailed):
        return told | {"failure": answer.kind, "status": answer.status}
    return told | {
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "seconds": round(answer.seconds, 3),
        "first_token": None if answer.first_token is None else round(answer.first_token, 3),
        "tokens_per_second": _rounded(tokens_per_second(answer)),
        "model": answer.model,
        "content": (answer.content or "")[:SHOWN],
        "reasoning": (answer.reasoning or "")[:SHOWN],
        "tool_calls": list(answer.tool_calls),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
