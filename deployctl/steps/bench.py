"""Speed of what serves, with speculation and, where asked for, without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from deployctl.config.base import Settings
from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import SmokeFailed, Undecided
from deployctl.steps.interface import (
    ANSWERING,
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.measuring.gates import gate_questions
from deployctl.steps.servers.client import open_client
from deployctl.steps.servers.plain_server import plain_server
from deployctl.vllm.client import load, prompt_sets
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.outcome import REFUSALS

CONCURRENCIES = (1, 2, 4, 8)
REQUESTS = 16


class BenchOptions(Settings):
    """bench: the levels, the requests at each, and what to compare with."""

    concurrencies: list[Annotated[int, Field(ge=1)]] = Field(default=[*CONCURRENCIES], min_length=1)
    """Requests at a time, level by level."""
    requests: int = Field(default=REQUESTS, ge=1)
    """Requests at each level."""
    compare: Literal["plain"] | None = None
    """Measure the same release without speculation too."""


class BenchStep(Step):
    """Tokens per second, time to first token and per output token, at several concurrencies."""

    name = "bench"
    phase = "gate"
    roles = ANSWERING
    failure = SmokeFailed
    options = BenchOptions
    needs_release = False

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return gate_questions(wanted)

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        if wanted.member is not None and wanted.option(self.name, "compare") == "plain":
            return Plan("blocked", reason="a group has no second server to compare with")
        return Plan("check", reason="asked for")

    def prove(self, context: Context) -> Evidence:
        wanted = context.wanted
        asked = make_load(
            wanted.profile.acceptance or AcceptanceSettings(),
            wanted.profile.model.served_name,
            tuple(wanted.option(self.name, "concurrencies", CONCURRENCIES)),
            int(wanted.option(self.name, "requests", REQUESTS)),
        )
        compared = wanted.option(self.name, "compare") == "plain"
        with open_client(context) as served:
            speeds = load.run(served, asked, _shown(context, "with speculation"))
        plain: load.Speeds | None = None
        if compared and wanted.profile.drafter is not None and speeds.ended is None:
            with plain_server(context, self.name) as other:
                plain = load.run(other, asked, _shown(context, "without speculation"))
        found = evidence_of(asked, speeds, plain)
        failed = problem(found)
        if failed is None:
            return found
        if found["ended"] is not None and found["ended"]["kind"] in REFUSALS:
            raise Undecided(wanted.host.name, self.name, failed, evidence=found)
        raise self.fail(context, failed, evidence=found)

    def details(self, evidence: Mapping[str, Any]) -> Iterator[str]:
        return bench_lines(evidence) if evidence else iter(())


def make_load(
    settings: AcceptanceSettings, model: str, concurrencies: tuple[int, ...], requests: int
) -> load.Load:
    """The load that a profile's acceptance prompts make."""
    prompts = prompt_sets.load(settings.prompts).prompts
    return load.Load(model, prompts, concurrencies, requests, settings.max_tokens, settings.timeout)


def of_servers(
    served: Client, plain: Client | None, asked: load.Load, told: Callable[[int, int], None]
) -> Evidence:
    """The bench of one server, and of a second one without speculation beside it."""
    speeds = load.run(served, asked, told)
    if plain is None or speeds.ended is not None:
        return evidence_of(asked, speeds, None)
    return evidence_of(asked, speeds, load.run(plain, asked, told))


def evidence_of(asked: load.Load, speeds: load.Speeds, plain: load.Speeds | None) -> Evidence:
    """The evidence of a bench: seconds and tokens per second, speed-up beside acceptance."""
    ended = speeds.ended or (plain and plain.ended)
    return {
        "model": asked.model,
        "max_tokens": asked.max_tokens,
        "levels": speeds.levels,
        "plain": None if plain is None else plain.levels,
        "speed_up": None if plain is None else load.speed_up(speeds.levels, plain.levels),
        "ended": None if ended is None else asdict(ended),
    }


def problem(found: Evidence) -> str | None:
    """Why a bench is worth nothing, or less than all of it; None where all was answered."""
    if found["ended"] is not None:
        ended = found["ended"]
        return f"ended at {ended['concurrency']} at once: {ended['reason']}"
    for level in [*found["levels"], *(found["plain"] or ())]:
        if level["failed"]:
            return f"requests failed: {level['failures'][0]}"
    return None


def _shown(context: Context, what: str) -> load.Told:
    def show(concurrency: int, requests: int) -> None:
        context.progress(what, f"{requests} requests, {concurrency} at once")

    return show


def bench_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    """A bench: one line a level, and what speculation gains."""
    yield from _levels("bench", evidence["levels"])
    if evidence.get("ended"):
        ended = evidence["ended"]
        yield f"  ended at {ended['concurrency']} at once: {ended['reason']}"
    if evidence["plain"] is not None:
        yield from _levels("without speculation", evidence["plain"])
        for one in evidence["speed_up"]:
            yield f"  {one['concurrency']:>4} at once: {one['speed_up']:.2f} times as fast"


def _levels(title: str, levels: list[Mapping[str, Any]]) -> Iterator[str]:
    yield title
    yield "  at once  tokens/s  first token p50/p95 ms  per token p50/p95 ms  length  failed"
    for level in levels:
        length = level["mean_acceptance_length"]
        speed = level["tokens_per_second"]
        yield (
            f"  {level['concurrency']:>7}  {'-' if speed is None else f'{speed:.1f}':>8}  "
            f"{_milliseconds(level['first_token']):>22}  "
            f"{_milliseconds(level['per_output_token']):>20}  "
            f"{'-' if length is None else f'{length:.2f}':>6}  {level['failed']:>6}"
        )
        if level.get("other_tokens") or level.get("in_flight_before"):
            yield f"           {_others(level)}: not the speed of these requests alone"
        if not level.get("settled", True) and not level["failed"]:
            rounds = [f"{one:.1f}" for one in (*level["warm_up"], speed or 0.0)]
            yield f"           not settled: {' '.join(rounds)} tokens/s, round by round"


def _others(level: Mapping[str, Any]) -> str:
    found = {
        "requests of others in flight before it": level.get("in_flight_before"),
        "tokens of others meanwhile": level.get("other_tokens"),
    }
    return ", ".join(f"{count} {what}" for what, count in found.items() if count)


def _milliseconds(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return "-"
    return f"{spread['p50'] * 1000:.1f} / {spread['p95'] * 1000:.1f}"
