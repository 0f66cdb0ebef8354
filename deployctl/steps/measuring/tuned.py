"""A tuning in words: a table for each concurrency, what won and by how much, what to set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HEAD = "  draft tokens  tokens/s  serving then  against the fastest      length  rounds"


def sentence(evidence: Mapping[str, Any]) -> str:
    """What came of it, in one line."""
    found = "; ".join(_won(level, evidence["current"]) for level in evidence["levels"])
    return found if evidence.get("complete", True) else f"so far: {found}"


def lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    """All that was measured, and the line to set."""
    for level in evidence["levels"]:
        yield f"{level['concurrency']} at once"
        yield HEAD
        yield from (_row(one, evidence["current"]) for one in level["candidates"])
        if level["drift"] is not None:
            yield (
                f"  the serving value measured again at the end: {level['drift']:+.1%}; a smaller "
                "lead may be the machine's"
            )
    for one in evidence["failed"]:
        yield f"{_called(one['value'])}: not measured: {one['why'].splitlines()[0]}"
    if evidence.get("complete", True):
        yield from _proposal(evidence)
        return
    known = {one["value"] for level in evidence["levels"] for one in level["candidates"]}
    missing = [_called(one) for one in evidence["values"] if one not in known]
    yield f"nothing was changed; interrupted before {', '.join(missing) or 'the end'}"


def _proposal(evidence: Mapping[str, Any]) -> Iterator[str]:
    current = evidence["current"]
    values = {one["value"] for one in evidence["chosen"]}
    if evidence["propose"]:
        sets = " ".join(f"--set {_quoted(one)}" for one in evidence["propose"])
        yield f"nothing was changed; to use it: deployctl up -p {evidence['profile']} {sets}"
        if len(values) > 1:
            yield (
                "  the borders between measured concurrencies are halfway; measure the schedule "
                "itself: deployctl bench"
            )
    elif values == {current}:
        yield f"nothing was changed; keep {_called(current)}"
    else:
        chosen = ", ".join(
            f"{_called(one['value'])} for {one['concurrency']} at once"
            for one in evidence["chosen"]
        )
        yield f"nothing was changed; choose for the load that you expect: {chosen}"


def _quoted(one: str) -> str:
    return f"'{one}'" if " " in one or "[" in one else one


def _won(level: Mapping[str, Any], current: int) -> str:
    at, best = f"{level['concurrency']} at once", level["best"]
    name = _called(best)
    if level["verdict"] == "change":
        return f"{at}: {name} is fastest, {_share(level['gain'])} above {_called(current)}"
    if level["verdict"] == "unclear":
        return f"{at}: no value is clearly faster than {_called(current)}"
    if level["ahead"] is None:
        return f"{at}: {name} alone was measured"
    return f"{at}: {name} stays, {_share(level['ahead'])} above {_called(level['second'])}"


def _row(one: Mapping[str, Any], current: int) -> str:
    value = f"{one['value'] or 'none'}{' (now)' if one['value'] == current else ''}"
    length, serving = one["mean_acceptance_length"], one["serving_tokens_per_second"]
    behind = "fastest" if one["behind"] is None else _share(one["behind"])
    ended = ", cannot win" if one["stopped_early"] else ""
    speed = f"{one['tokens_per_second']:>8.1f}  {_or_none(serving, 1):>12}"
    return f"  {value:<12}  {speed}  {behind:<23}  {_or_none(length, 2):>6}  {one['rounds']}{ended}"


def _or_none(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(lead: Mapping[str, Any]) -> str:
    found = lead["interval"]
    between = "" if found is None else f" ({found['low']:+.1%} to {found['high']:+.1%})"
    return f"{lead['share']:+.1%}{between}"


def _called(value: int) -> str:
    return f"{value} draft token{'' if value == 1 else 's'}" if value else "no speculation"
