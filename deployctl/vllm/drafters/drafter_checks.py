"""Checks of a drafter's config.json before it is written, against its target and the built vLLM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployctl.vllm.drafters import (
    dflash_checks,
    eagle_checks,
    edits,
    methods,
    own_checks,
    several,
)
from deployctl.vllm.drafters.drafter_shape import Shape, shape, target_fact
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances, equal, judged

RULES: Mapping[str, tuple[eagle_checks.Rule, ...]] = {
    **eagle_checks.RULES,
    "mtp": (own_checks.mtp_layers,),
    "dspark": (own_checks.dspark,),
}
"""By method; DFlash's are its own."""


def check(
    config: Mapping[str, Any], around: Circumstances, warn_only: Collection[str] = ()
) -> list[Check]:
    """Every check that applies to the method, in order; `warn_only` softens errors by name.

    Values of a wrong type are reported alone: other checks would mislead by calling them missing.
    """
    types = _softened(edits.ill_typed(config), warn_only)
    if errors(types):
        return types
    drafter = shape(config)
    checks = list(_common(drafter, around, config))
    for own in RULES.get(methods.canonical(around.method), ()):
        checks += own(drafter, around, config)
    if around.method == "dflash":
        for rule in dflash_checks.RULES:
            checks += rule(drafter, around)
        checks += dflash_checks.copies(config)
    checks += several.proposals(config)
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


def _common(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Iterator[Check]:
    method = methods.of(around.method)
    if not method.checked:
        said = f"not checked: there are no rules for method {around.method}"
        yield Check("method", "unknown", said)
    if method.own or not method.checked:
        return
    yield _architecture(drafter, around, config)
    if "hidden_size" in method.equal:
        own = drafter.target_hidden_size or drafter.hidden_size
        its = target_fact(around.target, "hidden_size")
        yield equal("hidden_size", "hidden_size", own, its)
    if "vocabulary" in method.equal:
        its = target_fact(around.target, "vocab_size")
        yield equal("vocabulary", "vocab_size", drafter.vocabulary, its)


def _architecture(drafter: Shape, around: Circumstances, config: Mapping[str, Any]) -> Check:
    """Whether the built vLLM knows the architecture that it makes of the drafter's own."""
    name = methods.architecture(around.method, config, drafter.architecture)
    known = around.architectures
    if name is None:
        missing = "architectures is missing"
        if around.method == "dflash" or known is not None:
            return Check("architecture", "error", f"{missing}: vLLM cannot load it")
        return Check("architecture", "unknown", f"{missing}, and what vLLM makes of that")
    if known is None:
        return Check("architecture", "unknown", "which architectures the built vLLM knows")
    return judged("architecture", name not in known, f"the built vLLM knows no {name}")
