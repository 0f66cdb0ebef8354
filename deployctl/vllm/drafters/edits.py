"""Whether a change of a drafter's config.json can be meant: its keys exist, its types stay."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from deployctl.vllm.drafters.drafter import same
from deployctl.vllm.drafters.drafter_verdicts import Check
from deployctl.vllm.drafters.fields import FIELDS, OPEN, misfits
from deployctl.vllm.drafters.jsonedit import flatten, look


def ill_typed(config: Mapping[str, Any]) -> Iterator[Check]:
    """Every known key whose value is of another kind than its readers take."""
    for path, value, kind in misfits(config):
        yield Check("types", "error", f"{path} is {_shown(value)}, it must be {kind.words}")


def unlikely(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Check]:
    """Keys that neither the config had nor anybody reads, and values of another type than the
    one that they replace (known keys have their kind, see `ill_typed`)."""
    present = flatten(before)
    for path, value in flatten(after).items():
        if path in FIELDS:
            continue
        try:
            old = present[path] if path in present else look(before, path)
        except KeyError:
            if not path.startswith(OPEN):
                said = f"{path} is not in this config, nor a known key"
                yield Check("keys", "error", said + _did_you_mean(path, [*present, *FIELDS]))
            continue
        if not same(old, value) and not _alike(old, value):
            said = f"{path} is {_shown(value)}, it was {_shown(old)}: another type"
            yield Check("types", "error", said)


def refused(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Check]:
    """What speaks against a change by hand; what was wrong before is not held against it."""
    old = set(ill_typed(before))
    return [*(c for c in ill_typed(after) if c not in old), *unlikely(before, after)]


def _alike(old: Any, new: Any) -> bool:
    if old is None:
        return True
    if isinstance(old, list) and isinstance(new, list):
        kinds = {_type(item) for item in old}
        return not kinds or {_type(item) for item in new} <= kinds
    return _type(old) == _type(new)


def _type(value: Any) -> type:
    return float if type(value) is int else type(value)


def _did_you_mean(path: str, known: Collection[str]) -> str:
    by_name = {key.rpartition(".")[2]: key for key in reversed(list(known))}
    by_name |= {key: key for key in known}
    near = difflib.get_close_matches(path, list(by_name), n=1, cutoff=0.6)
    return f"; did you mean {by_name[near[0]]}?" if near else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"
