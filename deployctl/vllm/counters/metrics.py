"""Prometheus counters of a server: read, and compared before and after our own requests.

Names and labels are the same from vLLM 0.9 to 0.33: `vllm:spec_decode_num_drafts_total`,
`…_num_draft_tokens_total`, `…_num_accepted_tokens_total` and
`…_num_accepted_tokens_per_pos_total{position}`, each once for every engine. Ray prints them as
`ray_vllm:…` or `ray_vllm_…`, llama.cpp as `llamacpp:…`. A vLLM without speculation has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deployctl.vllm.counters import counter_names
from deployctl.vllm.counters.counter_names import Sums
from deployctl.vllm.counters.counts import Counts
from deployctl.vllm.counters.unreadable import Unreadable, whole

RUNNING, WAITING = "vllm:num_requests_running{", "vllm:num_requests_waiting{"
IN_FLIGHT = (RUNNING, WAITING)
GENERATED = ("vllm:generation_tokens_total{", "vllm:generation_tokens_total ")
STARTED = "process_start_time_seconds"
LONGEST_LINE = 1 << 16
"""Characters of a line; the parser of labels needs time that grows with its square."""
WITHOUT = "the server does not speculate: /metrics has no counters of drafts"
UNTOLD = "/metrics has no counters of drafts: whether the server speculates is not known"


class Restarted(Exception):
    """The server restarted between two readings, so their difference is meaningless."""


@dataclass(frozen=True)
class Counters:
    """One reading of /metrics, summed over engines.

    `spec` is None where it has no counts of drafts; `without` says what that means, an unread
    form with its first line. `generation_tokens`, `requests` (finished) and `prefix_hits` (tokens
    found in the prefix cache) are None where the text lacks them. `identities` are unix times at
    which the process and its counters came to be; they tell one process from the next, and are
    never counted.
    """

    spec: Counts | None
    generation_tokens: int | None = None
    requests: int | None = None
    prefix_hits: int | None = None
    identities: Mapping[str, float] = field(default_factory=dict)
    without: str = WITHOUT


def parse(text: str, model: str | None = None) -> Counters:
    """Read an exposition; raises `Unreadable`. Units: tokens, drafts and requests since start.

    Where several models are counted, `model` is the one that is meant.
    """
    sums = Sums()
    identities: dict[str, float] = {}
    for name, labels, value in _samples(text.removeprefix("\ufeff")):
        if name == STARTED or name.endswith("_created"):
            identities[f"{name}{sorted(labels.items())}"] = value
        else:
            sums.add(name, labels, value)
    spec = sums.speculation(model)
    return Counters(
        spec=spec,
        generation_tokens=sums.whole("generation_tokens"),
        requests=sums.whole("request_success"),
        prefix_hits=sums.whole("prefix_cache_hits"),
        identities=identities,
        without="" if spec is not None else _without(text, sums),
    )


def in_flight(text: str) -> int | None:
    """Requests that run or wait in a server; None where the text does not tell.

    Only their lines are read: a text that was cut off at its end is good enough.
    """
    return _sum(text, IN_FLIGHT, "vllm:num_requests")


def running(text: str) -> int | None:
    """Requests that run in a server, read like `in_flight`."""
    return _sum(text, (RUNNING,), RUNNING)


def waiting(text: str) -> int | None:
    """Requests that wait in a server, read like `in_flight`."""
    return _sum(text, (WAITING,), WAITING)


def generated(text: str) -> int | None:
    """Tokens that a server has generated since its start, read like `in_flight`."""
    return _sum(text, GENERATED, "vllm:generation_tokens")


def _sum(text: str, names: tuple[str, ...], what: str) -> int | None:
    lines = [line for line in text.splitlines(keepends=True) if line.startswith(names)]
    counts = [value for _, _, value in _samples("".join(lines))]
    return whole(sum(counts), what) if counts else None


def difference(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings of one process.

    Raises `Restarted` where a counter went backwards, or where the process or its counters came
    to be at another time: then the difference would mix two servers.
    """
    for key, born in before.identities.items():
        if after.identities.get(key, born) != born:
            raise Restarted("the server restarted between the two readings, acceptance unknown")
    return Counters(
        spec=_less(before.spec, after.spec),
        generation_tokens=_minus(before.generation_tokens, after.generation_tokens),
        requests=_minus(before.requests, after.requests),
        prefix_hits=_minus(before.prefix_hits, after.prefix_hits),
        identities=after.identities,
        without=after.without,
    )


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.split("\n"):
        if len(line) > LONGEST_LINE:
            raise Unreadable(f"not a Prometheus exposition: a line of {len(line)} characters")
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                yield sample.name, sample.labels, float(sample.value)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise Unreadable(f"not a Prometheus exposition: {str(error)[:200]}") from error


def _without(text: str, sums: Sums) -> str:
    """Why there are no counts of drafts: a form that is not understood, or none at all."""
    for line in text.splitlines():
        if not line.startswith("#") and counter_names.mentions(line):
            return (
                "the server counts speculation in a form that is not understood, beginning with "
                f"{line.strip()[: counter_names.QUOTED]}"
            )
    # vLLM's series are there from its start on where it speculates, at 0.
    return WITHOUT if sums.of_vllm else UNTOLD


def _minus(before: int | None, after: int | None) -> int | None:
    if before is None or after is None:
        return None
    if after < before:
        raise Restarted("counters went backwards, the server restarted, acceptance unknown")
    return after - before


def _less(before: Counts | None, after: Counts | None) -> Counts | None:
    if before is None and after is None:
        return None
    if before is None or after is None:
        raise Restarted(
            "speculation is counted in one reading only, the server restarted, acceptance unknown"
        )
    return Counts(
        drafts=_minus(before.drafts, after.drafts),
        draft_tokens=_minus(before.draft_tokens, after.draft_tokens) or 0,
        accepted_tokens=_minus(before.accepted_tokens, after.accepted_tokens) or 0,
        per_position=_rows_less(before.per_position, after.per_position),
        drafted_per_position=None
        if after.drafted_per_position is None
        else _rows_less(before.drafted_per_position or (), after.drafted_per_position),
    )


def _rows_less(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    if len(after) < len(before):
        raise Restarted("positions disappeared, the server restarted, acceptance unknown")
    padded = before + (0,) * (len(after) - len(before))
    return tuple(_minus(old, new) or 0 for old, new in zip(padded, after, strict=True))
