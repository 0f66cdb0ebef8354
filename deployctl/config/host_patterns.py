"""Hosts chosen by a pattern, as Ansible's `--limit` takes it.

`a:b` or `a,b` both, `a:&b` those in both, `a:!b` those of a without b; each part is a host, a
group, `all`, a wildcard (`gpu*`), a regular expression (`~gpu[0-9]+`) or a slice of one
(`gpu[0]`, `gpu[-1]`, `gpu[0:2]`, ends included).
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Mapping, Sequence

from deployctl.config.suggest import did_you_mean

EVERY = ("all", "*")
_SLICE = re.compile(r"^(?P<name>.+)\[(?P<start>-?\d+)(?::(?P<end>-?\d*))?\]$")


class PatternError(ValueError):
    """A pattern that names nothing, or leaves nothing; the message says what a profile has not."""


def select(pattern: str, hosts: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The hosts that a pattern names, in their own order; raises `PatternError`.

    Exclusions and intersections apply after all that is named, wherever they stand.
    """
    parts = [part.strip() for part in _split(pattern) if part.strip()]
    named = [part for part in parts if part[0] not in "!&"] or ["all"]
    chosen = {host for part in named for host in _matching(part, hosts, groups)}
    for part in parts:
        if part[0] == "&":
            chosen &= set(_matching(part[1:], hosts, groups))
    for part in parts:
        if part[0] == "!":
            chosen -= set(_matching(part[1:], hosts, groups))
    if not chosen:
        raise PatternError(f"has no host left after {pattern!r}")
    return [host for host in hosts if host in chosen]


def _split(pattern: str) -> list[str]:
    """Parts between `:` or `,`; a colon inside brackets belongs to a slice."""
    if pattern.startswith("~"):
        return pattern.split(",")
    return re.split(r"[,:](?![^\[]*\])", pattern)


def _matching(part: str, hosts: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    sliced = _SLICE.match(part)
    if sliced and part[0] != "~":
        found = _matching(sliced["name"], hosts, groups)
        return _slice(found, int(sliced["start"]), sliced["end"])
    if part in EVERY:
        return list(hosts)
    if part.startswith("~"):
        try:
            with warnings.catch_warnings(action="ignore", category=FutureWarning):
                matches = re.compile(part[1:]).match
        except re.error as error:
            raise PatternError(f"{part!r} is not a regular expression: {error}") from error
    else:
        matches = re.compile(fnmatch.translate(part)).match
    in_groups = {host for name, members in groups.items() if matches(name) for host in members}
    found = [host for host in hosts if host in in_groups or matches(host)]
    if not found:
        known = [*hosts, *groups]
        hint = did_you_mean(part, known) or f"; there are {', '.join(known)}"
        plain = not set(part) & set("*?[~")
        what = f"host {part}" if plain else f"host or group that matches {part!r}"
        raise PatternError(f"has no {what}{hint}")
    return found


def _slice(found: Sequence[str], start: int, end: str | None) -> list[str]:
    if end is None:
        return [found[start]] if -len(found) <= start < len(found) else []
    if end == "":
        return list(found[start:])
    last = int(end)
    return list(found[start : None if last == -1 else last + 1])
