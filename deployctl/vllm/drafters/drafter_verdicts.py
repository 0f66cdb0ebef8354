"""What a check of a drafter's config says, and what it is judged against."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "warning", "error", "unknown"]

CHECKS = frozenset(
    {
        "architecture",
        "copies",
        "draft_tokens",
        "draft_topk",
        "drafter",
        "hidden_size",
        "keys",
        "layer_ids",
        "layer_ids_range",
        "layer_ids_shifted",
        "layer_ids_usual",
        "layer_types",
        "mask_token",
        "method",
        "mtp_layers",
        "proposals",
        "sliding_window",
        "target_layers",
        "types",
        "vocabulary",
        "weights",
    }
)
"""The name of every check."""


@dataclass(frozen=True)
class Check:
    """One check and its verdict; `message` says what is wrong and what would be right."""

    name: str
    verdict: Verdict
    message: str = ""


@dataclass(frozen=True)
class Circumstances:
    """What a drafter's config is judged against.

    `target` is the target's config.json; `upstream` the drafter's before the overrides;
    `architectures` those that the built vLLM knows, None where that is unknown; `layer_offset`
    whether that vLLM has the layer offset's fix; `tensors` the shapes in the drafter's weights;
    `mask_tokens` the ids of the target's own tokens that are named like a mask.
    """

    target: Mapping[str, Any]
    method: str
    draft_tokens: int
    upstream: Mapping[str, Any] = field(default_factory=dict)
    architectures: Collection[str] | None = None
    layer_offset: bool | None = None
    tensors: Mapping[str, Sequence[int]] | None = None
    mask_tokens: Sequence[int] | None = None


def judged(name: str, bad: bool, message: str, verdict: Verdict = "error") -> Check:
    """The check of a condition: `verdict` and `message` where it is bad, else ok."""
    return Check(name, verdict, message) if bad else Check(name, "ok")


def equal(name: str, key: str, own: Any, its: Any) -> Check:
    """The check that a drafter's value is its target's; unknown where one does not say."""
    if own is None or its is None:
        side = "drafter" if own is None else "target"
        return Check(name, "unknown", f"the {side}'s config has no {key}")
    return judged(name, own != its, f"{key} is {own}, the target's is {its}")
