"""vLLM's Prometheus counters: read, and compared before and after our own requests.

Names and labels are the same from vLLM 0.19 to 0.33: `vllm:spec_decode_num_drafts_total`,
`…_num_draft_tokens_total`, `…_num_accepted_tokens_total` and
`…_num_accepted_tokens_per_pos_total{position}`, each once for every engine. A server without
speculation has none of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from deployctl.vllm.acceptance.counts import Counts

PREFIX = "vllm:spec_decode_num_"
DRAFTS, DRAFT_TOKENS, ACCEPTED = "drafts", "draft_tokens", "accepted_tokens"
ACCEPTED_AT, DRAFTED_AT = "accepted_tokens_per_pos", "draft_tokens_per_pos"
TOKENS, REQUESTS = "vllm:generation_tokens", "vllm:request_success"
PREFIX_HITS = "vllm:prefix_cache_hits"
IN_FLIGHT = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
STARTED = "process_start_time_seconds"
LAST_POSITION = 4095
"""Far beyond any drafter's tokens."""
LARGEST = 1 << 53
"""Beyond it a float counts no single tokens."""
LONGEST_LINE = 1 << 16
"""Characters of a line; the parser of labels needs time that grows with its square."""


class Unreadable(Exception):
    """The text is not a Prometheus exposition, or its counters are no counts; the message says
    where it breaks."""


class Restarted(Exception):
    """The server restarted between two readings, so their difference means nothing."""


@dataclass(frozen=True)
class Counters:
    """One reading of /metrics, summed over engines.

    `spec` is None where the server does not speculate. `generation_tokens`, `requests` (finished)
    and `prefix_hits` (tokens found in the prefix cache) are None where the text lacks them.
    `identities` are unix times at which the
    process and its counters came to be; they tell one process from the next, and are never
    counted.
    """

    spec: Counts | None
    generation_tokens: int | None = None
    requests: int | None = None
    prefix_hits: int | None = None
    identities: Mapping[str, float] = field(default_factory=dict)


def parse(text: str) -> Counters:
    """Read an exposition; raises `Unreadable`. Units: tokens, drafts and requests since start."""
    sums: dict[str, float] = defaultdict(float)
    positions: dict[str, dict[int, float]] = {ACCEPTED_AT: {}, DRAFTED_AT: {}}
    identities: dict[str, float] = {}
    for name, labels, value in _samples(text):
        if name == STARTED or (name.startswith("vllm:") and name.endswith("_created")):
            identities[f"{name}{sorted(labels.items())}"] = value
            continue
        name = name.removesuffix("_total")
        short = name.removeprefix(PREFIX)
        if name != short and short in positions and "position" in labels:
            at = positions[short]
            position = _position(labels["position"])
            at[position] = at.get(position, 0.0) + value
        else:
            sums[name] += value
    return Counters(
        spec=_counts(sums, positions),
        generation_tokens=_whole(sums, TOKENS),
        requests=_whole(sums, REQUESTS),
        prefix_hits=_whole(sums, PREFIX_HITS),
        identities=identities,
    )


def in_flight(text: str) -> int | None:
    """Requests that run or wait in a server; None where the text does not tell.

    Only their lines are read: a text that was cut off at its end is good enough.
    """
    lines = [line for line in text.splitlines(keepends=True) if line.startswith(IN_FLIGHT)]
    counts = [value for _, _, value in _samples("".join(lines))]
    return _count(sum(counts), "vllm:num_requests") if counts else None


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
    )


def _samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    for line in text.split("\n"):
        if len(line) > LONGEST_LINE:
            raise Unreadable(f"not a Prometheus exposition: a line of {len(line)} characters")
    try:
        return [
            (sample.name, sample.labels, float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise Unreadable(f"not a Prometheus exposition: {str(error)[:200]}") from error


def _counts(sums: Mapping[str, float], positions: Mapping[str, dict[int, float]]) -> Counts | None:
    if PREFIX + DRAFTS not in sums:
        return None
    drafts, draft_tokens, accepted = (
        _count(sums.get(PREFIX + name, 0.0), PREFIX + name)
        for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED)
    )
    accepted_at, drafted_at = (_row(positions[name], name) for name in (ACCEPTED_AT, DRAFTED_AT))
    return Counts(drafts, draft_tokens, accepted, accepted_at, drafted_at or None)


def _row(at: Mapping[int, float], name: str) -> tuple[int, ...]:
    return tuple(
        _count(at.get(position, 0.0), PREFIX + name) for position in range(max(at, default=-1) + 1)
    )


def _position(label: str) -> int:
    if len(label) > 4 or not label.isdecimal() or int(label) > LAST_POSITION:
        raise Unreadable(f"{label[:20]!r} is no position of a draft token")
    return int(label)


def _whole(sums: Mapping[str, float], name: str) -> int | None:
    return _count(sums[name], name) if name in sums else None


def _count(value: float, name: str) -> int:
    if not 0 <= value < LARGEST:
        raise Unreadable(f"{name} is {value:g}, which is no count")
    return int(value)


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
