"""Whether speculation changes answers: token by token, with and without it, at temperature 0.

Speculative decoding promises the target's own answer. In practice the two can part where two
tokens are almost equally likely: other batch shapes round otherwise. One early difference in a
few answers is such numerics; many, or gibberish after the difference, are a defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.client import requests
from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.context_window import ContextWindow, context_window
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.prompt_sets import Prompt

CAVEAT = (
    "answers may part where two tokens are almost equally likely: a batch of several tokens "
    "rounds otherwise than one token at a time"
)
BEFORE, AFTER = 40, 40
"""Characters of both answers that are shown around the first difference."""


@dataclass(frozen=True)
class Difference:
    """Where two answers part: the number of the token, or of the character without token ids."""

    at: int
    unit: str
    speculative: str
    plain: str


def first_difference(speculative: Answer, plain: Answer) -> Difference | None:
    """The first token at which two answers part; None where they are the same."""
    one, other = speculative.token_ids, plain.token_ids
    if one is not None and other is not None:
        at, unit = _parting(one, other), "token"
    else:
        at, unit = _parting(speculative.content or "", plain.content or ""), "character"
    if at is None:
        return None
    texts = (speculative.content or "", plain.content or "")
    near = _parting(*texts) or 0
    shown = [text[max(0, near - BEFORE) : near + AFTER] for text in texts]
    return Difference(at, unit, *shown)


def compare(
    speculative: Client,
    plain: Client,
    model: str,
    prompts: Sequence[Prompt],
    max_tokens: int,
    timeout: float,
) -> dict[str, Any]:
    """Ask both servers the same and say where their answers part; evidence of a report."""
    window = context_window(speculative, model)
    differences: list[dict[str, Any]] = []
    failures: list[str] = []
    compared = tokens = 0
    for number, prompt in enumerate(prompts):
        request = _request(speculative, window, model, prompt, max_tokens, timeout)
        try:
            one, other = speculative.send(request), plain.send(request)
        except RequestFailed as error:
            failures.append(f"prompt {number}: {error}")
            continue
        compared += 1
        tokens += other.completion_tokens or 0
        found = first_difference(one, other)
        if found is not None:
            differences.append({"prompt": number, **found.__dict__})
    return {
        "verdict": _verdict(compared, failures, differences),
        "compared": compared,
        "tokens": tokens,
        "identical": compared - len(differences),
        "first_difference": differences[0] if differences else None,
        "differences": [{"prompt": d["prompt"], "at": d["at"]} for d in differences],
        "failures": failures,
        "caveat": CAVEAT,
    }


def _verdict(compared: int, failures: list[str], differences: list[dict[str, Any]]) -> str:
    if failures or not compared:
        return "unknown"
    return "different" if differences else "pass"


def _request(
    client: Client,
    window: ContextWindow,
    model: str,
    prompt: Prompt,
    max_tokens: int,
    timeout: float,
) -> Request:
    messages = requests.user(window.lengthened(prompt.text, prompt.filler_tokens))
    room = window.room(client, messages, max_tokens)
    extra = {"return_token_ids": True}
    return Request(requests.chat(model, messages, room, 0.0, extra=extra), timeout)


def _parting(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """The first index at which two sequences differ, or the end of the shorter one."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))
