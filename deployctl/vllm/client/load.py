"""Speed of a server under load: tokens per second and latencies at several concurrencies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from deployctl.vllm.acceptance.counts import acceptance_rate, mean_acceptance_length
from deployctl.vllm.acceptance.metrics import Counters, Restarted, difference, parse
from deployctl.vllm.acceptance.unreadable import Unreadable
from deployctl.vllm.client import requests
from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.context_window import context_window
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.prompt_sets import Prompt

Told = Callable[[int, int], None]
"""Told before each level: its concurrency and its number of requests."""


@dataclass(frozen=True)
class Load:
    """What to ask: each level asks `requests` prompts, at most so many at once."""

    model: str
    prompts: tuple[Prompt, ...]
    concurrencies: tuple[int, ...]
    requests: int
    max_tokens: int
    timeout: float


def run(client: Client, load: Load, told: Told) -> list[dict[str, Any]]:
    """One entry a level of concurrency; every level asks the same prompts.

    A first round of one request warms the server up and is not counted.
    """
    bodies = _bodies(client, load)
    client.send_all(bodies[:1], 1)
    levels = []
    for concurrency in load.concurrencies:
        told(concurrency, len(bodies))
        before = _counters(client)
        began = time.monotonic()
        answers = client.send_all(bodies, concurrency)
        seconds = time.monotonic() - began
        levels.append(_level(concurrency, answers, seconds, before, _counters(client)))
    return levels


def speed_up(speculative: Sequence[Any], plain: Sequence[Any]) -> list[dict[str, Any]]:
    """Tokens per second with speculation over those without, by concurrency."""
    slow = {level["concurrency"]: level["tokens_per_second"] for level in plain}
    return [
        {"concurrency": level["concurrency"], "speed_up": level["tokens_per_second"] / other}
        for level in speculative
        if (other := slow.get(level["concurrency"])) and level["tokens_per_second"]
    ]


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median, 95th percentile and most of some seconds; None without any."""
    if not values:
        return None
    if len(values) == 1:
        return {"p50": values[0], "p95": values[0], "max": values[0]}
    cuts = quantiles(values, n=20, method="inclusive")
    return {"p50": cuts[9], "p95": cuts[18], "max": max(values)}


def _bodies(client: Client, load: Load) -> list[Request]:
    window = context_window(client, load.model)
    made = []
    for number in range(load.requests):
        prompt = load.prompts[number % len(load.prompts)]
        messages = requests.user(window.lengthened(prompt.text, prompt.filler_tokens))
        room = window.room(client, messages, load.max_tokens)
        made.append(
            Request(requests.chat(load.model, messages, room, 0.0, stream=True), load.timeout)
        )
    return made


def _level(
    concurrency: int,
    answers: Sequence[Answer | RequestFailed],
    seconds: float,
    before: Counters | None,
    after: Counters | None,
) -> dict[str, Any]:
    good = [answer for answer in answers if isinstance(answer, Answer)]
    failed = [str(answer) for answer in answers if isinstance(answer, RequestFailed)]
    tokens = sum(answer.completion_tokens or 0 for answer in good)
    return {
        "concurrency": concurrency,
        "requests": len(answers),
        "failed": len(failed),
        "failures": failed[:3],
        "seconds": seconds,
        "tokens": tokens,
        "tokens_per_second": tokens / seconds if good else None,
        "first_token": spread([a.first_token for a in good if a.first_token is not None]),
        "per_output_token": spread([value for a in good if (value := per_token(a)) is not None]),
        **_accepted(before, after),
    }


def per_token(answer: Answer) -> float | None:
    """Seconds a token after the first one (TPOT); None for fewer than two tokens."""
    tokens, first = answer.completion_tokens, answer.first_token
    if tokens is None or tokens < 2 or first is None:
        return None
    return (answer.seconds - first) / (tokens - 1)


def _counters(client: Client) -> Counters | None:
    try:
        return parse(client.metrics())
    except (RequestFailed, Unreadable):
        return None


def _accepted(before: Counters | None, after: Counters | None) -> dict[str, float | None]:
    """Acceptance over a level, as /metrics counts it; None where it does not."""
    counts = None
    if before is not None and after is not None:
        try:
            counts = difference(before, after).spec
        except Restarted:
            counts = None
    if counts is None:
        return {"mean_acceptance_length": None, "acceptance_rate": None}
    return {
        "mean_acceptance_length": mean_acceptance_length(counts),
        "acceptance_rate": acceptance_rate(counts),
    }
