"""Checks of a drafter's config.json before it is written, against its target and the built vLLM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployctl.vllm.drafters import dflash_checks, edits
from deployctl.vllm.drafters.drafter_shape import Shape, shape, target_fact
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, equal, judged


def check(
    config: Mapping[str, Any], around: Circumstances, warn_only: Collection[str] = ()
) -> list[Check]:
    """Every check that applies to the method, in order; `warn_only` softens errors by name.

    Values of a wrong type are told alone: what the others would say of them as missing misleads.
    """
    types = _softened(edits.ill_typed(config), warn_only)
    if errors(types):
        return types
    drafter = shape(config)
    checks = list(_common(drafter, around))
    if around.method == "dflash":
        for rule in dflash_checks.RULES:
            checks += rule(drafter, around)
        checks += dflash_checks.copies(config)
    if around.upstream:
        checks += edits.unlikely(around.upstream, config)
    return [*types, *_softened(checks, warn_only)]


def errors(checks: Sequence[Check]) -> list[Check]:
    """Those that forbid to write."""
    return [c for c in checks if c.verdict == "error"]


def _softened(checks: Iterable[Check], warn_only: Collection[str]) -> list[Check]:
    return [
        replace(c, verdict="warning") if c.verdict == "error" and c.name in warn_only else c
        for c in checks
    ]


def _common(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    width = target_fact(around.target, "hidden_size")
    vocabulary = target_fact(around.target, "vocab_size")
    known = around.architectures
    if drafter.architecture is None:
        yield Check("architecture", "error", "architectures is missing: vLLM cannot load it")
    elif known is None:
        yield Check("architecture", "unknown", "which architectures the built vLLM knows")
    else:
        yield judged(
            "architecture",
            drafter.architecture not in known,
            f"the built vLLM knows no {drafter.architecture}",
        )
    if around.method == "draft_model":
        yield equal("vocabulary", "vocab_size", drafter.vocabulary, vocabulary)
        return
    own = drafter.target_hidden_size or drafter.hidden_size
    yield equal("hidden_size", "hidden_size", own, width)
    yield equal("vocabulary", "vocab_size", drafter.vocabulary, vocabulary)
