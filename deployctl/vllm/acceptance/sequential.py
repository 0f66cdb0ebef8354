"""How many prompts a verdict needs: look early, decide only what is clear, stop at the limit.

Looking at the data several times makes a false verdict likelier. Early looks therefore ask for a
tenth of the error probability, and only the last look spends what the gate allows (the rule of
Haybittle and Peto, British Journal of Radiology 44, 1971, and British Journal of Cancer 34, 1976).
"""

from __future__ import annotations

from deployctl.vllm.acceptance.judgement import Verdict

FIRST_LOOK = 12
"""Fewer requests cannot carry an early verdict: where most requests lie on one side of the mean,
a handful of them lies there together too often, and its interval cannot know."""


def looks(limit: int) -> list[int]:
    """After how many requests to judge: 12, 24, 48, … and the limit."""
    planned = []
    look = FIRST_LOOK
    while look < limit:
        planned.append(look)
        look *= 2
    return [*planned, limit]


def confidence_at(look: int, limit: int, confidence: float) -> float:
    """The confidence that a look asks for: the gate's at the limit, ten times stricter before."""
    return confidence if look >= limit else 1 - (1 - confidence) / 10


def decided(verdict: Verdict) -> bool:
    """Whether a verdict ends the measurement: more prompts would not be asked for."""
    return verdict in ("pass", "fail", "unknown")
