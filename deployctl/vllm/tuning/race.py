"""Measure one candidate's server at one concurrency, and stop where it cannot win."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.load import AGREE, GONE, ROUNDS, read_counters
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.counters.counts import mean_acceptance_length
from deployctl.vllm.counters.metrics import Counters, Restarted, difference
from deployctl.vllm.tuning import speeds
from deployctl.vllm.tuning.choice import Candidate
from deployctl.vllm.tuning.speeds import Sample, Series

WARM_UP = 4
"""Requests of a round before the measurement, at least; twice the concurrency where that is
more."""

Shown = Callable[[int, float | None], None]
"""Called after each look: the requests answered, and the tokens per second so far."""


@dataclass(frozen=True)
class Race:
    """What every candidate is asked at one concurrency, in the same order. `confidence` is that of
    each comparison with the fastest candidate so far."""

    bodies: Sequence[Request]
    concurrency: int
    confidence: float


class Unusable(Exception):
    """A candidate whose server does not answer everything; the message is the first failure."""


def measure(
    client: Client, race: Race, value: int, leader: Series | None, shown: Shown
) -> Candidate:
    """Ask until all requests are answered or this candidate cannot win any more; `leader` is the
    fastest one so far, None where this one must be measured to the end. Raises `Unusable`."""
    _warm(client, race)
    series: list[Sample | None] = []
    before = read_counters(client)
    stopped = False
    for look in speeds.looks(len(race.bodies), race.concurrency):
        series += _ask(client, race.bodies[len(series) : look], race.concurrency)
        shown(look, speeds.speed(series, race.concurrency))
        if leader is not None and look < len(race.bodies):
            stopped = speeds.cannot_win(series, leader, len(race.bodies), race.confidence)
        if stopped:
            break
    return Candidate(value, tuple(series), _length(before, read_counters(client)), stopped)


def fastest(candidates: Sequence[Candidate], concurrency: int) -> Series | None:
    """The fastest of those that were measured to the end; None without one."""
    whole = [one for one in candidates if not one.stopped]
    best = max(whole, key=lambda one: speeds.speed(one.series, concurrency) or 0.0, default=None)
    return None if best is None else best.series


def _warm(client: Client, race: Race) -> None:
    """Ask a few requests in rounds until one is hardly faster than the round before: compilation
    and caches are paid by then."""
    few = race.bodies[: max(WARM_UP, 2 * race.concurrency)]
    last = 0.0
    for _ in range(ROUNDS):
        found = speeds.speed(_ask(client, few, race.concurrency), race.concurrency) or 0.0
        if last and found <= last * (1 + AGREE):
            return
        last = found


def _ask(client: Client, bodies: Sequence[Request], concurrency: int) -> list[Sample]:
    began = time.monotonic()
    answers = client.send_all(bodies, concurrency, lambda failure: failure.kind in GONE)
    seconds = time.monotonic() - began
    failed = [one for one in answers if isinstance(one, RequestFailed)]
    if failed:
        raise Unusable(f"{len(failed)} of {len(answers)} requests failed: {failed[0]}")
    good = [one for one in answers if isinstance(one, Answer)]
    if not any(one.completion_tokens for one in good):
        raise Unusable("the server does not report the tokens of its answers")
    return [Sample(one.completion_tokens or 0, min(one.seconds, seconds)) for one in good]


def _length(before: Counters | None, after: Counters | None) -> float | None:
    with suppress(Restarted):
        if before is not None and after is not None:
            counts = difference(before, after).spec
            return None if counts is None else mean_acceptance_length(counts)
    return None
