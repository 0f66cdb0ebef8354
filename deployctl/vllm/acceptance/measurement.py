"""Acceptance of a running server: counters before and after each of our own requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deployctl import cancel
from deployctl.vllm.acceptance import sequential
from deployctl.vllm.acceptance.evidence import Source
from deployctl.vllm.acceptance.judgement import Gate, Judgement, judge
from deployctl.vllm.client import requests
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.context_window import ContextWindow, context_window
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.prompt_sets import Prompt
from deployctl.vllm.counters.counts import NOTHING, Counts, pooled
from deployctl.vllm.counters.metrics import Counters, Restarted, difference, parse
from deployctl.vllm.counters.unreadable import Unreadable

Progress = Callable[[int, int, Counts], None]
"""Called after each request: how many are done, how many there are at most, counts so far."""

SETTLE = 15.0
"""Seconds for which counters may lag behind an answer."""
POLL = 0.05
MARGIN = 128
"""Tokens kept free for the question itself and the chat template beside long filler."""


@dataclass(frozen=True)
class Protocol:
    """How a measurement is done: everything that must be the same for two of them to compare.

    `prompts` are in the order in which they are asked, `in_set` is how many the set has. `earlier`
    holds what the last good release's measurement counted, by prompt.
    """

    model: str
    prompt_set: str
    prompts: tuple[Prompt, ...]
    max_tokens: int
    temperature: float
    thinking: bool | None
    timeout: float
    gate: Gate
    seed: int
    in_set: int = 0
    earlier: Mapping[str, Counts] = field(default_factory=dict)


@dataclass
class Measured:
    """What was measured, and the verdict.

    `samples` are the counts of single requests, `keys` names their prompts. `foreign_tokens` and
    `foreign_requests` were generated for others in the meantime; requests in whose time that
    happened are `left_out`, unless the server counts each request by itself. Not left out is what
    stands beside others' requests for one token, such as deployctl's own proofs of life: they end
    before a draft is verified.
    """

    judgement: Judgement
    counts: Counts
    samples: list[Counts] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    expected: list[bool] = field(default_factory=list)
    """Of each answer of which something is expected: whether it is there."""
    shortened: list[int] = field(default_factory=list)
    """Tokens of filler that did not fit in the context, of each prompt that should have some."""
    source: Source = "metrics"
    requests: int = 0
    foreign_tokens: int = 0
    foreign_requests: int = 0
    others_run: bool = False
    """Whether another's request of more than a token may be unfinished."""
    left_out: int = 0
    prefix_hits: int | None = None
    prompt_tokens: list[int] = field(default_factory=list)
    version: str | None = None
    seconds: float = 0.0


class _Unknown(Exception):
    """The measurement cannot be trusted; the message says why."""


def measure(client: Client, protocol: Protocol, progress: Progress) -> Measured:
    """Run prompts one at a time until the verdict is clear or the prompts are used up.

    Never raises for what the server does: such a measurement is `unknown`, with the reason.
    """
    taken = Measured(Judgement("no-data", ()), NOTHING)
    began = time.monotonic()
    try:
        _collect(client, protocol, progress, taken)
    except (_Unknown, Restarted, Unreadable, RequestFailed) as error:
        # What was counted until then stands for nothing: no number is better than a wrong one.
        taken.judgement, taken.counts = Judgement("unknown", (str(error),)), NOTHING
    taken.seconds = time.monotonic() - began
    return taken


def _collect(client: Client, protocol: Protocol, progress: Progress, taken: Measured) -> None:
    before = parse(client.metrics(), protocol.model)
    if before.spec is None:
        raise _Unknown(before.without)
    taken.version = client.version()
    window = context_window(client, protocol.model)
    limit = len(protocol.prompts)
    looks = sequential.looks(limit)
    for number, prompt in enumerate(protocol.prompts, 1):
        before = _one(client, protocol, window, prompt, before, taken)
        taken.counts = pooled(taken.samples)
        progress(number, limit, taken.counts)
        if number in looks:
            # An early look decides by a wider interval, and that is the one that is reported.
            confidence = sequential.confidence_at(number, limit, protocol.gate.confidence)
            taken.judgement = _judge(protocol, taken, confidence)
            if sequential.decided(taken.judgement.verdict):
                break
    if not taken.samples:
        raise _Unknown(
            "other traffic ran during every one of our requests: measure when it is quiet, or "
            "start the server with --per-request-spec-decode-metrics summary where it knows that"
        )
    misfit = _misfit(protocol, taken)
    if misfit and taken.judgement.verdict in ("fail", "undecided"):
        reasons = (misfit, *taken.judgement.reasons)
        taken.judgement = replace(taken.judgement, verdict="undecided", reasons=reasons)


def _judge(protocol: Protocol, taken: Measured, confidence: float) -> Judgement:
    earlier = [
        (sample, protocol.earlier[key])
        for key, sample in zip(taken.keys, taken.samples, strict=True)
        if key in protocol.earlier
    ]
    return judge(
        taken.counts, taken.samples, protocol.gate, protocol.seed, confidence, earlier=earlier
    )


def _misfit(protocol: Protocol, taken: Measured) -> str:
    """Why a set says nothing about the drafter of this pair; empty where it does."""
    said = f"prompt set {protocol.prompt_set} cannot tell here"
    cut = [tokens for tokens in taken.shortened if tokens]
    if cut:
        return f"{said}: the server's context has no room for {max(cut)} tokens of its filler"
    right = sum(taken.expected)
    if len(taken.expected) >= 2 and right < len(taken.expected) / 2:
        return (
            f"{said}: the target itself does not answer it, {right} of {len(taken.expected)} "
            "answers have what any right one has"
        )
    return ""


def _one(
    client: Client,
    protocol: Protocol,
    window: ContextWindow,
    prompt: Prompt,
    before: Counters,
    taken: Measured,
) -> Counters:
    """One request, and the counters after it."""
    body, cut = _body(client, window, protocol, prompt)
    answer = client.send(Request(body, protocol.timeout))
    if answer.completion_tokens is None:
        raise _Unknown("the server does not report how many tokens it generated")
    after = _settled(client, protocol.model, before, answer.completion_tokens)
    counted = difference(before, after)
    taken.requests += 1
    if counted.prefix_hits is not None:
        taken.prefix_hits = (taken.prefix_hits or 0) + counted.prefix_hits
    taken.prompt_tokens.append(answer.prompt_tokens or 0)
    if prompt.filler_tokens:
        taken.shortened.append(cut)
    if prompt.expects:
        there = prompt.expects in f"{answer.reasoning or ''}{answer.content or ''}"
        # An answer that was cut off may have had it later.
        if there or answer.finish_reason != "length":
            taken.expected.append(there)
    foreign_tokens = (counted.generation_tokens or 0) - answer.completion_tokens
    foreign_requests = max((counted.requests or 1) - 1, 0)
    taken.foreign_tokens += foreign_tokens
    taken.foreign_requests += foreign_requests
    if answer.speculation is not None:
        taken.source = "requests"
        sample = answer.speculation
    elif foreign_tokens > foreign_requests or (foreign_requests and taken.others_run):
        taken.left_out += 1
        taken.others_run = foreign_tokens > foreign_requests
        return after
    else:
        sample = counted.spec or NOTHING
    taken.others_run = False
    taken.samples.append(sample)
    taken.keys.append(prompt.key)
    return after


def _settled(client: Client, model: str, before: Counters, tokens: int) -> Counters:
    """The counters once they contain our own request: they lag behind the answer."""
    deadline = time.monotonic() + SETTLE
    while True:
        after = parse(client.metrics(), model)
        counted = difference(before, after)
        if counted.generation_tokens is None or counted.requests is None:
            lacking = "request_success" if counted.requests is None else "generation_tokens"
            raise _Unknown(f"/metrics has no vllm:{lacking}: our requests cannot be separated")
        if counted.generation_tokens >= tokens and counted.requests >= 1:
            return after
        if time.monotonic() > deadline:
            raise _Unknown(
                f"the counters did not catch up within {SETTLE:g} s: "
                f"{counted.generation_tokens} of our {tokens} tokens"
            )
        cancel.sleep(POLL)


def _body(
    client: Client, window: ContextWindow, protocol: Protocol, prompt: Prompt
) -> tuple[dict[str, Any], int]:
    """A prompt's request, with room for the answer; and the filler tokens that did not fit."""
    filler = prompt.filler_tokens
    if window.tokens is not None:
        filler = min(filler, max(0, window.tokens - protocol.max_tokens - MARGIN))
    messages = requests.user(window.lengthened(prompt.text, filler))
    body = requests.chat(
        protocol.model,
        messages,
        window.room(client, messages, protocol.max_tokens),
        protocol.temperature,
        thinking=protocol.thinking,
        extra={"seed": protocol.seed} if protocol.temperature > 0 else None,
    )
    return body, prompt.filler_tokens - filler
