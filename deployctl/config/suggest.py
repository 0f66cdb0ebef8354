"""The nearest known name to one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most probably stands for, or None when none is near."""
    by_folded = {folded(item): item for item in sorted(known, reverse=True)}
    found = difflib.get_close_matches(folded(name), list(by_folded), n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean port?`, or nothing."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""


def folded(name: str) -> str:
    """A name without the differences of case, dash and underscore."""
    return name.lower().replace("-", "_")
