"""Device files as `ls -l /dev/nvidia*` lists them. Pure.

Format: ls(1) of GNU coreutils and busybox: mode, links, owner, group, `major, minor` or a size, a
date in any style, the name; a folder's contents follow a line `FOLDER:` and have bare names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_ROW = re.compile(
    r"(?P<kind>[-cbdlps])(?P<mode>[-rwxsStT]{9})[.+@]?\s+[0-9]{1,9}\s+(?P<uid>\S+)\s+(?P<gid>\S+)\s+"
    r"(?:(?P<major>[0-9]{1,9}),\s*(?P<minor>[0-9]{1,9})|\d[\d.,]*[KMGT]?)\s+(?P<rest>.*\S)"
)
_FOLDER = re.compile(r"(/.*):")
_MISSING = re.compile(r"ls: .*")
_DATE = re.compile(
    r"(?:\w{3,9}\.?\s+\d{1,2}|\d{1,2}\.?\s+\w{3,9}\.?|\d{4}-\d\d-\d\d|\d\d-\d\d)"
    r"\s+(?:\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?|\d{4})(?:\s+[-+]\d{4})?\s+(?P<name>.+)"
)


@dataclass(frozen=True)
class Listing:
    """`devices` have the form of the agent's `passthrough.look`; `odd` are lines that are no
    listing's, with their numbers."""

    devices: tuple[dict[str, Any], ...]
    odd: tuple[tuple[int, str], ...]


def parse(text: str) -> Listing:
    """Read a listing."""
    devices: dict[str, dict[str, Any]] = {}
    odd: list[tuple[int, str]] = []
    folder = "/dev"
    for number, raw in enumerate(text.split("\n"), 1):
        row = _COLOUR.sub("", raw[:4096]).strip()
        found = _ROW.fullmatch(row)
        if found is None:
            header = _FOLDER.fullmatch(row)
            if header:
                folder = header[1]
            elif row and not re.fullmatch(r"(?:total|\w+) \d+", row) and not _MISSING.match(row):
                odd.append((number, row))
            continue
        name = _name(found["rest"])
        if name is None:
            odd.append((number, row))
        elif found["kind"] in "c-":
            path = name if name.startswith("/") else f"{folder}/{name}"
            devices[path] = _device(path, found)
    return Listing(tuple(devices.values()), tuple(odd))


def _name(rest: str) -> str | None:
    """The name after the date; a bare path where the date was cut off."""
    dated = _DATE.fullmatch(rest)
    name = dated["name"] if dated else rest.split()[-1]
    name = name.strip("'\"")
    return name if dated or name.startswith("/dev/") else None


def _device(path: str, found: re.Match[str]) -> dict[str, Any]:
    device = found["kind"] == "c" and found["major"] is not None
    return {
        "path": path,
        "kind": "device" if device else "file",
        "major": int(found["major"]) if device else None,
        "minor": int(found["minor"]) if device else None,
        "mode": _mode(found["mode"]),
        "uid": _number(found["uid"]),
        "gid": _number(found["gid"]),
    }


def _mode(letters: str) -> int:
    return sum(1 << (8 - at) for at, letter in enumerate(letters) if letter not in "-ST")


def _number(owner: str) -> int | None:
    """A numeric owner, and root; the number behind any other name is not in the listing."""
    if owner == "root":
        return 0
    return int(owner) if re.fullmatch(r"[0-9]{1,9}", owner) else None
