"""Acceptance as the evidence of a report: one shape, whichever way it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from deployctl.vllm.acceptance.interval import Interval
from deployctl.vllm.acceptance.judgement import Certain, Gate, Judgement
from deployctl.vllm.counters.counts import (
    Counts,
    acceptance_rate,
    conditional_rates,
    mean_acceptance_length,
    per_position_rates,
)

Source = Literal["metrics", "requests", "log"]
"""Where counts come from: /metrics, the server's own count for each request, or its log."""


def acceptance(
    source: Source,
    counts: Counts,
    judgement: Judgement,
    gate: Gate,
    length: float | None = None,
    positions: Sequence[float | None] | None = None,
    certain: Certain | None = None,
) -> dict[str, Any]:
    """The evidence of an acceptance check; what is not known is None.

    `length` and `positions` replace what follows from the counts where a log prints them and
    does not tell the drafts; `bounds` then says what is certain.
    """
    rates = per_position_rates(counts) if positions is None else list(positions)
    return {
        "source": source,
        "drafts": counts.drafts,
        "draft_tokens": counts.draft_tokens,
        "accepted_tokens": counts.accepted_tokens,
        "mean_acceptance_length": mean_acceptance_length(counts) if length is None else length,
        "acceptance_rate": acceptance_rate(counts),
        "per_position": rates,
        "conditional": conditional_rates(rates),
        "bounds": bounds(certain),
        "interval": interval(judgement.interval),
        "verdict": judgement.verdict,
        "reasons": list(judgement.reasons),
        "gate": conditions(gate),
    }


def interval(found: Interval | None) -> dict[str, Any] | None:
    """An interval as data: from low to high, at a confidence from 0 to 1."""
    if found is None:
        return None
    return {
        "low": found.low,
        "high": found.high,
        "confidence": found.confidence,
        "samples": found.samples,
        "method": "bootstrap over requests",
    }


def bounds(certain: Certain | None) -> dict[str, Any] | None:
    """The least and the most of figures that a log rounds; None where they are known."""
    if certain is None:
        return None
    spans = {"drafts": certain.drafts, "mean_acceptance_length": certain.length}
    if all(span is None or span[0] == span[1] for span in spans.values()):
        return None
    return {name: None if span is None else list(span) for name, span in spans.items()}


def conditions(gate: Gate) -> dict[str, Any]:
    """A gate as data, with the floor that follows from it."""
    return {
        "min_length": gate.min_length,
        "min_rate": gate.min_rate,
        "min_per_position": list(gate.min_per_position),
        "min_drafts": gate.min_drafts,
        "confidence": gate.confidence,
        "tolerance": gate.tolerance,
        "last_good": gate.last_good,
        "floor": gate.length_floor,
    }
