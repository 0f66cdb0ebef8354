"""Speed of a server under load: tokens per second and latencies at several concurrencies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from deployctl.vllm.client import requests
from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.context_window import context_window
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.prompt_sets import Prompt
from deployctl.vllm.counters.counts import acceptance_rate, mean_acceptance_length
from deployctl.vllm.counters.metrics import Counters, Restarted, difference, parse
from deployctl.vllm.counters.unreadable import Unreadable

Told = Callable[[int, int], None]
"""Called before each level: its concurrency and its number of requests."""

ROUNDS = 6
"""Rounds of a level at most."""
AGREE = 0.1
"""Two rounds agree where the slower one is at most this share slower than the other."""
GONE = ("timeout", "stalled", "refused")
"""Ends of a request after which more requests would only wait."""


@dataclass(frozen=True)
class Load:
    """What to ask: each level asks `requests` prompts, at most `concurrency` at once."""

    model: str
    prompts: tuple[Prompt, ...]
    concurrencies: tuple[int, ...]
    requests: int
    max_tokens: int
    timeout: float


@dataclass(frozen=True)
class Ended:
    """Why a bench ended before its last level."""

    concurrency: int
    kind: str
    reason: str


@dataclass(frozen=True)
class Speeds:
    """One entry a level of concurrency that was measured; `ended` where that was not all."""

    levels: list[dict[str, Any]]
    ended: Ended | None = None


def run(client: Client, load: Load, told: Told) -> Speeds:
    """Ask the same prompts at every level, each warmed at its own concurrency.

    A level is asked in rounds until one agrees with the round before: compilation, graphs and
    caches of that concurrency are paid by then, and the last round is the one that counts.
    A server that does not answer any more ends it all.
    """
    bodies = request_bodies(client, load)
    levels: list[dict[str, Any]] = []
    for concurrency in load.concurrencies:
        told(concurrency, len(bodies))
        others = client.in_flight()
        level, ended = _warmed(client, bodies, concurrency)
        levels.append(level | {"in_flight_before": others})
        if ended is not None:
            return Speeds(levels, ended)
    return Speeds(levels)


def _warmed(
    client: Client, bodies: Sequence[Request], concurrency: int
) -> tuple[dict[str, Any], Ended | None]:
    """The last round of a level, with the speed of those before it."""
    before: list[float] = []
    while True:
        level, answers = _round(client, bodies, concurrency)
        speed = level["tokens_per_second"]
        settled = bool(before) and speed is not None and _agree(speed, before[-1])
        ended = _ended(client, concurrency, answers)
        if settled or ended is not None or len(before) + 1 >= ROUNDS:
            return level | {"warm_up": before, "settled": settled}, ended
        before.append(speed or 0.0)


def _agree(one: float, other: float) -> bool:
    return min(one, other) >= max(one, other) * (1 - AGREE)


def _round(
    client: Client, bodies: Sequence[Request], concurrency: int
) -> tuple[dict[str, Any], Sequence[Answer | RequestFailed]]:
    counted = read_counters(client)
    began = time.monotonic()
    answers = client.send_all(bodies, concurrency, lambda failure: failure.kind in GONE)
    seconds = time.monotonic() - began
    return _level(concurrency, answers, seconds, counted, read_counters(client)), answers


def _ended(
    client: Client, concurrency: int, answers: Sequence[Answer | RequestFailed]
) -> Ended | None:
    failures = [answer for answer in answers if isinstance(answer, RequestFailed)]
    gone = [failure for failure in failures if failure.kind in GONE]
    if gone:
        held = client.in_flight()
        beside = f"; the server has {held} requests in flight" if held else ""
        return Ended(concurrency, gone[0].kind, f"{gone[0]}{beside}")
    if failures and len(failures) == len(answers):
        return Ended(concurrency, failures[0].kind, f"every request failed: {failures[0]}")
    return None


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


def request_bodies(client: Client, load: Load) -> list[Request]:
    """The requests of a level, as the server's context has room for them."""
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
        **_counted(before, after, None if failed else tokens),
    }


def per_token(answer: Answer) -> float | None:
    """Seconds a token after the first one (TPOT); None for fewer than two tokens."""
    tokens, first = answer.completion_tokens, answer.first_token
    if tokens is None or tokens < 2 or first is None:
        return None
    return (answer.seconds - first) / (tokens - 1)


def read_counters(client: Client) -> Counters | None:
    """What /metrics counts now; None where that cannot be read."""
    try:
        return parse(client.metrics())
    except (RequestFailed, Unreadable):
        return None


def _counted(
    before: Counters | None, after: Counters | None, ours: int | None
) -> dict[str, float | int | None]:
    """Acceptance over a level, and the tokens of others in it, as /metrics counts them; None where
    it does not."""
    found: Counters | None = None
    if before is not None and after is not None:
        with suppress(Restarted):
            found = difference(before, after)
    counts = None if found is None else found.spec
    made = None if found is None else found.generation_tokens
    return {
        "mean_acceptance_length": None if counts is None else mean_acceptance_length(counts),
        "acceptance_rate": None if counts is None else acceptance_rate(counts),
        "other_tokens": None if made is None or ours is None else max(0, made - ours),
    }
