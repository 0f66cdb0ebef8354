"""Acceptance as the evidence of a report: one shape, whichever way it was measured."""

from __future__ import annotations

from typing import Any

from deployctl.vllm.counts import (
    Counts,
    acceptance_rate,
    conditional_rates,
    mean_acceptance_length,
    per_position_rates,
)
from deployctl.vllm.interval import Interval
from deployctl.vllm.judgement import Gate, Judgement


def acceptance(
    source: str, counts: Counts, judgement: Judgement, gate: Gate, length: float | None = None
) -> dict[str, Any]:
    """The evidence of an acceptance check.

    `source` says where the counts come from: metrics, requests (the server's own count for each)
    or log. What is not known is None. `length` replaces 1 + accepted / drafts where a log prints
    the mean acceptance length and not the drafts.
    """
    return {
        "source": source,
        "drafts": counts.drafts,
        "draft_tokens": counts.draft_tokens,
        "accepted_tokens": counts.accepted_tokens,
        "mean_acceptance_length": mean_acceptance_length(counts) if length is None else length,
        "acceptance_rate": acceptance_rate(counts),
        "per_position": per_position_rates(counts),
        "conditional": conditional_rates(counts),
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
