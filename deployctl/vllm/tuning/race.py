"""Measure one candidate's server at one concurrency, and stop where it cannot win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import token_hex

from deployctl.vllm.acceptance.sequential import looks
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
"""Rounds that are asked to warm a server up, again and again."""

Shown = Callable[[int, float], None]
"""Called after each look: the rounds so far, and their tokens per second."""


@dataclass(frozen=True)
class Race:
    """What every candidate is asked at one concurrency, in the same order: `rounds` of as many
    requests as the concurrency. `serving` is asked beside each round, None where nothing serves;
    `confidence` is that of each comparison with the fastest candidate so far."""

    bodies: Sequence[Request]
    concurrency: int
    confidence: float
    serving: Client | None = None

    @property
    def rounds(self) -> int:
        return len(self.bodies) // self.concurrency

    def salted(self) -> Race:
        """The same, with nothing of it in a server's prefix cache: what was asked before would make
        one server faster than another (`cache_salt` of vLLM's requests)."""
        salt = token_hex(8)
        bodies = [replace(one, body={**one.body, "cache_salt": salt}) for one in self.bodies]
        return replace(self, bodies=bodies)

    def of_round(self, number: int) -> Sequence[Request]:
        """The requests of a round, counted from 0."""
        return self.bodies[number * self.concurrency : (number + 1) * self.concurrency]


class Unusable(Exception):
    """A server that does not answer everything; the message is the first failure."""


def measure(
    client: Client, race: Race, value: int, leader: Series | None, shown: Shown
) -> Candidate:
    """Ask until all rounds are over or this candidate cannot win any more; `leader` is the fastest
    one so far, None where this one must be measured to the end. Raises `Unusable`."""
    _warm(client, race)
    race = race.salted()
    own: list[Sample] = []
    reference: list[Sample] = []
    before = read_counters(client)
    stopped = False
    for look in looks(race.rounds):
        for number in range(len(own), look):
            _round(client, race, number, own, reference)
        shown(look, speeds.speed(own, race.concurrency))
        if leader is not None and look < race.rounds:
            found = Series(own, reference)
            stopped = speeds.cannot_win(found, leader, race.rounds, race.confidence)
        if stopped:
            break
    length = _length(before, read_counters(client))
    return Candidate(value, Series(tuple(own), tuple(reference)), length, stopped)


def fastest(candidates: Sequence[Candidate], base: Series) -> Series:
    """The fastest of those that were measured to the end and of `base`, by their leads over
    that."""
    ended = [one.series for one in candidates if not one.stopped]
    return max([base, *ended], key=lambda one: speeds.lead(one, base))


def _round(
    client: Client, race: Race, number: int, own: list[Sample], reference: list[Sample]
) -> None:
    """One round of the candidate and one of what serves, who begins taking turns: so what changes
    steadily meanwhile is the same for both."""
    bodies = race.of_round(number)
    sides: list[tuple[Client, list[Sample]]] = [(client, own)]
    if race.serving is not None:
        sides.append((race.serving, reference))
    for side, samples in sides if number % 2 else reversed(sides):
        samples.append(_ask(side, bodies, race.concurrency))


def _warm(client: Client, race: Race) -> None:
    """Ask the first rounds again and again until they are hardly faster than before: compilation
    and caches are paid by then."""
    few = min(WARM_UP, race.rounds)
    last = 0.0
    for _ in range(ROUNDS):
        samples = [_ask(client, race.of_round(number), race.concurrency) for number in range(few)]
        found = speeds.rate(samples)
        if last and found <= last * (1 + AGREE):
            return
        last = found


def _ask(client: Client, bodies: Sequence[Request], concurrency: int) -> Sample:
    answers = client.send_all(bodies, concurrency, lambda failure: failure.kind in GONE)
    failed = [one for one in answers if isinstance(one, RequestFailed)]
    if failed:
        raise Unusable(f"{len(failed)} of {len(answers)} requests failed: {failed[0]}")
    good = [one for one in answers if isinstance(one, Answer)]
    tokens = sum(one.completion_tokens or 0 for one in good)
    if not tokens:
        raise Unusable("the server does not report the tokens of its answers")
    return Sample(tokens, sum(one.seconds for one in good))


def _length(before: Counters | None, after: Counters | None) -> float | None:
    with suppress(Restarted):
        if before is not None and after is not None:
            counts = difference(before, after).spec
            return None if counts is None else mean_acceptance_length(counts)
    return None
