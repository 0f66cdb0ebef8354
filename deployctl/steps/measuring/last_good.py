"""What the last good release reached, and on which prompts, to compare like with like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.config.checks import AcceptanceSettings
from deployctl.steps.facts import known_releases
from deployctl.steps.interface import Context
from deployctl.vllm.acceptance.measurement import Measured, Protocol
from deployctl.vllm.client import prompt_sets
from deployctl.vllm.counters.counts import Counts


def last_good(context: Context, gate: str, settings: AcceptanceSettings) -> dict[str, Any] | None:
    """What the last good release reached on the same prompts: its id, length and positions.

    None on the way to a release that was named: it is not asked to be the best of all.
    """
    if context.wanted.pinned is not None:
        return None
    kept = known_releases(context.answers)
    for release in (kept["current"], kept["previous"]):
        manifest = kept["releases"].get(release or "") or {}
        before = (manifest.get("evidence") or {}).get(gate) or {}
        if before.get("verdict") != "pass":
            continue
        if comparable(before.get("prompts") or {}) == comparable(prompts_of(settings)):
            return {
                "release": release,
                "mean_acceptance_length": before["mean_acceptance_length"],
                "per_position": before["per_position"],
                "by_prompt": before.get("by_prompt") or [],
            }
    return None


def earlier_of(before: Mapping[str, Any] | None, settings: AcceptanceSettings) -> dict[str, Counts]:
    """What the last good release's measurement counted, by prompt; of prompts that are still in
    the set, where it is compared with."""
    if before is None or settings.tolerance is None:
        return {}
    there = {prompt.key for prompt in prompt_sets.load(settings.prompts).prompts}
    return {
        one["prompt"]: Counts(one["drafts"], one["draft_tokens"], one["accepted_tokens"])
        for one in before["by_prompt"]
        if one["prompt"] in there and one["drafts"]
    }


def shown(
    before: Mapping[str, Any] | None, protocol: Protocol, measured: Measured
) -> dict[str, Any] | None:
    """The last good release as evidence, with how many prompts both were asked."""
    if before is None:
        return None
    told = {name: value for name, value in before.items() if name != "by_prompt"}
    return told | {"compared": sum(key in protocol.earlier for key in measured.keys)}


def prompts_of(settings: AcceptanceSettings) -> dict[str, Any]:
    """How the prompts are chosen and asked, as it is stored beside a result."""
    return {
        "set": settings.prompts,
        "limit": settings.max_prompts,
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "thinking": settings.thinking,
        "seed": settings.seed,
    }


def comparable(prompts: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for two results to compare."""
    names = ("set", "max_tokens", "temperature", "thinking")
    return {name: prompts.get(name) for name in names}
