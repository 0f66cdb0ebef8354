"""What a server's counters say at a glance: requests, tokens, acceptance; and its GPUs' memory.

Pure. The gauges of requests read 0 while an engine hangs: they show load, not life.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.answers import HttpAnswer, UnitState
from deployctl.agent.wire.gpus import Gpu
from deployctl.hosts.operations import network
from deployctl.hosts.session import Call
from deployctl.steps.servers.process import RUNNING
from deployctl.steps.servers.stopping import listens_at
from deployctl.vllm.counters import metrics
from deployctl.vllm.counters.counts import acceptance_rate, mean_acceptance_length
from deployctl.vllm.counters.metrics import Counters, Restarted, difference
from deployctl.vllm.counters.unreadable import Unreadable

PATIENCE = 5.0
"""Seconds that /metrics gets."""
LINES = (
    *("vllm:num_requests_", "vllm:generation_tokens", "vllm:request_success", "vllm:spec_decode_"),
    metrics.STARTED,
)
"""Beginnings of the lines that are read."""
NAMED = "--served-model-name"
"""The option by which a command line is that of a server of models."""


@dataclass(frozen=True)
class Figures:
    """One reading of a server; None where it does not tell."""

    running: int | None
    waiting: int | None
    counters: Counters

    @property
    def requests(self) -> dict[str, int | None]:
        """The requests in it, as a document has them."""
        return {"running": self.running, "waiting": self.waiting}


def server_at(unit: UnitState) -> str | None:
    """The URL of a unit that runs and is a server of models."""
    serves = unit["state"] in RUNNING and NAMED in (unit.get("argv") or ())
    return listens_at(unit) if serves else None


def question(url: str) -> Call[HttpAnswer]:
    """A reading of a server's counters."""
    return Call(
        network.http, method="GET", url=f"{url}/metrics", timeout=PATIENCE, lines=list(LINES)
    )


def figures(answer: Any) -> Figures | None:
    """What an answer tells; None where there is none that can be read."""
    if not isinstance(answer, dict) or answer["status"] != 200:
        return None
    text = str(answer["body"])
    try:
        return Figures(metrics.running(text), metrics.waiting(text), metrics.parse(text))
    except Unreadable:
        return None


def since_start(now: Figures) -> dict[str, float | None]:
    """Acceptance since the server's start; None where it does not speculate, or not yet."""
    return _acceptance(now.counters)


def between(before: Figures, now: Figures, seconds: float) -> dict[str, Any] | None:
    """Tokens per second and acceptance between two readings; None where the server was restarted
    in between."""
    try:
        made = difference(before.counters, now.counters)
    except Restarted:
        return None
    tokens = made.generation_tokens
    rate = None if tokens is None or seconds <= 0 else tokens / seconds
    return {"tokens_per_second": rate, **_acceptance(made)}


def _acceptance(counters: Counters) -> dict[str, float | None]:
    spec = counters.spec
    return {
        "mean_acceptance_length": None if spec is None else mean_acceptance_length(spec),
        "acceptance_rate": None if spec is None else acceptance_rate(spec),
    }


def memory(gpus: Iterable[Gpu]) -> list[dict[str, Any]]:
    """The memory of GPUs in MiB, as a document has it."""
    return [
        {"index": gpu["index"], "used": gpu["memory_used"], "total": gpu["memory_total"]}
        for gpu in gpus
    ]
