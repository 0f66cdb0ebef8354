"""Shapes of the records that lie on a host as JSON: ledger entries, manifests, seals.

Other keys may be there; these are read by more than one reader. A host's agent takes a record of
another shape for damaged; a controller takes an agent that sends one for one that it cannot
understand.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

Check = Callable[[Any], bool]
LONGEST_AGO = 1e12
"""Seconds: no time of a record is further away, and every calendar knows those that are nearer."""


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _number_or_none(value: Any) -> bool:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (plain and abs(value) < LONGEST_AGO)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())


def _verdicts(value: Any) -> bool:
    return _objects(value) and all(
        "verdict" in one and _text_or_none(one["verdict"]) and _number_or_none(one.get("measured"))
        for one in value.values()
    )


ENTRY: Dict[str, Check] = {
    **dict.fromkeys(
        ("kind", "run", "unit", "phase", "outcome", "playbook", "why", "step", "line"), _text
    ),
    **dict.fromkeys(("release", "current", "error", "profile_digest"), _text_or_none),
    **dict.fromkeys(("changed", "failed"), _texts),
    "time": _number_or_none,
    "figures": _object,
    "verdicts": _verdicts,
}
NEEDED: Dict[str, List[str]] = {
    "begin": ["run"],
    "phase": ["run", "phase"],
    "end": ["run", "outcome"],
    "damaged": ["line"],
}
"""What an entry of this kind has; other kinds are later ones."""
MANIFEST: Dict[str, Check] = {
    **dict.fromkeys(("identity", "wanted"), _object),
    "evidence": _objects,
    "skip": _texts,
}
SEAL: Dict[str, Check] = {"evidence": _objects, "knowledge": _object}
BREAK: Dict[str, Check] = {"why": _texts}
"""Of the note that a seal was broken."""


def wrong(record: Dict[str, Any], shape: Dict[str, Check]) -> str:
    """The first key of a record with a value of another type than it has; empty where none."""
    pairs = ((name, fits) for name, fits in shape.items() if name in record)
    return next((name for name, fits in pairs if not fits(record[name])), "")


def wrong_entry(entry: Dict[str, Any]) -> str:
    """The same for a ledger's entry, or what it lacks."""
    found = wrong(entry, ENTRY)
    if found:
        return found
    needed = NEEDED.get(entry.get("kind", ""), [])
    return next((name for name in needed if name not in entry), "")


def strange(op: str, value: Any) -> str:
    """Where an operation's answer, whose outer shape is right, has a record of a wrong shape."""
    if op == "releases.ledger":
        return _first("entry", value, wrong_entry)
    if op != "releases.state":
        return ""
    return (
        _first("ledger", value["ledger"], wrong_entry)
        or _first("releases", value["releases"].values(), lambda one: wrong(one, MANIFEST))
        or _first("environments", value["environments"].values(), lambda one: wrong(one, SEAL))
    )


def _first(place: str, found: Any, check: Callable[[Dict[str, Any]], str]) -> str:
    names = (check(one) for one in found if one is not None)
    name: Optional[str] = next(filter(None, names), None)
    return f"{place}: {name} is wrong or missing" if name else ""
