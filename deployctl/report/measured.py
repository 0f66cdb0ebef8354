"""What a check measured, as lines of text, apart from a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def acceptance_verdict(evidence: Mapping[str, Any]) -> str:
    """The verdict of an acceptance check: without a floor, nothing was passed."""
    judged = (evidence.get("gate") or {}).get("floor") is not None
    return "measured" if evidence["verdict"] == "pass" and not judged else evidence["verdict"]


def acceptance_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    """An acceptance check: the verdict, the figures, and where they come from."""
    yield f"acceptance  {acceptance_verdict(evidence)}: {'; '.join(evidence['reasons'])}"
    if not evidence["draft_tokens"]:
        return
    length, bounds = evidence["mean_acceptance_length"], evidence.get("bounds")
    said = "unknown" if length is None else f"{length:.2f}"
    if length is not None or bounds is not None:
        yield f"  mean acceptance length  {said}{_span(evidence['interval'], bounds)}"
    yield f"  acceptance rate         {_percent(evidence['acceptance_rate'])}"
    yield f"  per position            {_rates(evidence['per_position'])}"
    yield f"  given the one before    {_rates(evidence['conditional'])}"
    drafts = "unknown" if evidence["drafts"] is None else evidence["drafts"]
    if evidence["drafts"] is None and bounds and bounds["drafts"]:
        drafts = f"{bounds['drafts'][0]} to {bounds['drafts'][1]}"
    tokens = f"{evidence['accepted_tokens']} of {evidence['draft_tokens']} tokens accepted"
    yield f"  counted                 {drafts} drafts, {tokens} (from {evidence['source']})"
    prompts = evidence.get("prompts") or {}
    if prompts.get("in_set"):
        drawn = f"{prompts['asked']} of {prompts['in_set']} in the set"
        yield f"  prompts                 {drawn}, drawn by seed {prompts['seed']}"
    yield from (f"  note                    {remark}" for remark in evidence.get("remarks", ()))
    other = evidence.get("other_traffic")
    if other and (other["tokens"] or other["requests"]):
        yield f"  other traffic           {other['tokens']} tokens, {other['left_out']} left out"
    for reference in evidence.get("references", ()):
        value = f"{reference['mean_acceptance_length']:.2f}"
        yield f"  published               {value} ({reference['source']})"


def smoke_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    """A smoke check: the verdict, and each request with what was wrong."""
    yield f"smoke  {evidence['verdict']}"
    for check in evidence["checks"]:
        result = check["result"]
        yield f"  {check['name']}: {result['verdict']}{_pace(result)}"
        yield from (f"    {problem}" for problem in (*result["problems"], *result["notes"]))


def _span(interval: Mapping[str, Any] | None, bounds: Mapping[str, Any] | None) -> str:
    if bounds is not None and bounds["mean_acceptance_length"]:
        least, most = bounds["mean_acceptance_length"]
        if least == most:
            return ""
        return f"  (certain: {least:.2f} to {most:.2f})"
    if interval is None:
        return "  (no interval: counts of single requests are not known)"
    confidence = f"{100 * interval['confidence']:.3g}%"
    return f"  [{interval['low']:.2f}, {interval['high']:.2f}] at {confidence}"


def _percent(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:.1%}"


def _rates(rates: list[float | None]) -> str:
    return " ".join("-" if rate is None else f"{rate:.3f}" for rate in rates) or "unknown"


def _pace(result: Mapping[str, Any]) -> str:
    tokens, speed = result.get("completion_tokens"), result.get("tokens_per_second")
    if tokens is None or speed is None:
        return ""
    return f", {tokens} tokens at {speed:.0f}/s, {result['finish_reason']}"
