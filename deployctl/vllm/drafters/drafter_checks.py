"""Checks of a drafter's config.json before it is written, against its target and the built vLLM."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployctl.vllm.drafters import dflash_checks
from deployctl.vllm.drafters.drafter_shape import Shape, shape, text_config
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, equal, judged


def check(
    config: Mapping[str, Any], around: Circumstances, warn_only: Collection[str] = ()
) -> list[Check]:
    """Every check that applies to the method, in order; `warn_only` softens errors by name."""
    drafter = shape(config)
    checks = list(_common(drafter, around))
    if around.method == "dflash":
        for rule in dflash_checks.RULES:
            checks += rule(drafter, around)
        checks += dflash_checks.copies(config)
    return [
        replace(c, verdict="warning") if c.verdict == "error" and c.name in warn_only else c
        for c in checks
    ]


def errors(checks: Sequence[Check]) -> list[Check]:
    """Those that forbid to write."""
    return [c for c in checks if c.verdict == "error"]


def _common(drafter: Shape, around: Circumstances) -> Iterator[Check]:
    target = text_config(around.target)
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
        yield equal("vocabulary", "vocab_size", drafter.vocabulary, target.get("vocab_size"))
        return
    own, its = drafter.target_hidden_size or drafter.hidden_size, target.get("hidden_size")
    yield equal("hidden_size", "hidden_size", own, its)
    yield equal("vocabulary", "vocab_size", drafter.vocabulary, target.get("vocab_size"))
