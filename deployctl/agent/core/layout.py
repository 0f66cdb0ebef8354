"""Where a profile's units lie below the root.

`@/profiles/P/` holds `lock` and `ledger.jsonl`; each unit has a home of its own in it, `units/U/`,
with `releases/`, the links `current` and `previous`, and `server/`. In the older layout the home
of the profile's own unit was `@/profiles/P` itself, and that of any other `@/profiles/P.U`. What
lies there is found all the same, until `takeover` has moved it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Dict, List

from ..wire.records import wrong_entry
from .atomic_files import parse_object, read_json
from .regular_files import open_regular

NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}$")
"""What profiles and units may be called."""
MAIN, FRONT = "server", "front"
"""A profile's own unit, and what leads its clients to one of several."""
ROUTER = "router"
"""What clients ask instead of one of several replicas."""
SLOTS = ("blue", "green")
PLAIN = re.compile(r"^plain-[0-9a-f]{8}$")
"""Servers without speculation, for as long as something is compared with them."""
FOLDERS, LINKS = ("releases", "server"), ("current", "previous")
LEDGER = "ledger.jsonl"


def profile_home(root: str, profile: str) -> str:
    """The directory of a profile."""
    return os.path.join(root, "profiles", profile)


def unit_home(root: str, profile: str, unit: str) -> str:
    """The directory of a unit."""
    return os.path.join(profile_home(root, profile), "units", unit)


def place(root: str, profile: str, unit: str, item: str) -> str:
    """Where something of a unit lies (`releases`, `server`, `current`, …), or will."""
    found = os.path.join(unit_home(root, profile, unit), item)
    if not is_there(found, item) and item in older_items(root, profile, unit):
        return os.path.join(older_home(root, profile, unit), item)
    return found


def resolved(root: str, name: str) -> str:
    """The path of a name below the root, wherever the unit that it begins with lies."""
    parts = name.split("/")
    if len(parts) > 4 and (parts[0], parts[2]) == ("profiles", "units") and parts[4]:
        return os.path.join(place(root, parts[1], parts[3], parts[4]), *parts[5:])
    return os.path.join(root, name)


def profiles(root: str) -> List[str]:
    """The names of the profiles that have something here."""
    found = folders(os.path.join(root, "profiles"))
    return [name for name in found if NAME.match(name) and not _is_older_unit(root, name)]


def units(root: str, profile: str) -> List[str]:
    """The names of a profile's units."""
    known = {*folders(os.path.join(profile_home(root, profile), "units"))}
    known |= {unit for unit in (MAIN, FRONT) if older_items(root, profile, unit)}
    return sorted({*known, *older_units(root, profile)})


def unit_below(top: str, path: str) -> str:
    """Whose a path below the folder of all profiles is: a profile's own unit is named by the
    profile, any other as `PROFILE/UNIT`."""
    parts = path.split("/")
    profile, unit = parts[0], MAIN
    if parts[1:2] == ["units"] and len(parts) > 2:
        unit = parts[2]
    elif "." in profile:
        before, _, last = profile.rpartition(".")
        moved = os.path.join(before, "units", last)
        link = os.path.join(top, profile)
        if os.path.islink(link) and os.readlink(link) == moved:
            profile, unit = before, last
        elif _is_older_unit(os.path.dirname(os.path.normpath(top)), profile):
            profile, unit = before, last
    return profile if unit == MAIN else "%s/%s" % (profile, unit)


# -- the older layout ----------------------------------------------------------------------------


def older_home(root: str, profile: str, unit: str) -> str:
    """Where a unit's home was in the older layout."""
    return profile_home(root, profile if unit in (MAIN, FRONT) else "%s.%s" % (profile, unit))


def older_items(root: str, profile: str, unit: str) -> List[str]:
    """What of a unit still lies in its older home."""
    home = older_home(root, profile, unit)
    if unit not in (MAIN, FRONT) and unit not in older_units(root, profile):
        return []
    found = [one for one in (*FOLDERS, *LINKS) if is_there(os.path.join(home, one), one)]
    found = [one for one in found if one in LINKS or not os.path.islink(os.path.join(home, one))]
    if unit not in (MAIN, FRONT) or not found:
        return found
    fronted = "server" in found and _runs_front(os.path.join(home, "server"))
    if unit == FRONT:
        return ["server"] if fronted else []
    return [one for one in found if one != "server" or not fronted]


def older_units(root: str, profile: str) -> List[str]:
    """Units of a profile that have a whole home in the older layout. `P.blue` may also be another
    profile's name: it is a slot where the profile was ever turned to one."""
    top = os.path.join(root, "profiles")
    named = [name[len(profile) + 1 :] for name in folders(top) if name.startswith(profile + ".")]
    plain = [unit for unit in named if PLAIN.match(unit)]
    slots = [unit for unit in named if unit in SLOTS]
    return [*plain, *(slots if slots and _had_slots(os.path.join(top, profile)) else ())]


def is_there(path: str, item: str) -> bool:
    """Whether the item exists. A folder's link must lead to one; any other link counts."""
    return os.path.islink(path) if item in LINKS else os.path.exists(path)


def _is_older_unit(root: str, name: str) -> bool:
    profile, dot, unit = name.rpartition(".")
    known = bool(dot) and os.path.isdir(profile_home(root, profile))
    return known and unit in older_units(root, profile)


def _runs_front(server: str) -> bool:
    try:
        return (read_json(os.path.join(server, "spec.json")) or {}).get("release") == FRONT
    except (OSError, ValueError):
        return False


def _had_slots(home: str) -> bool:
    if os.path.exists(os.path.join(home, "front.json")):
        return True
    return any(entry.get("current") in SLOTS for entry in entries(home))


def entries(home: str, last: int = 0) -> List[Dict[str, Any]]:
    """The last entries of a profile's ledger, oldest first; all of them for 0."""
    return [entry(line) for line in ledger_lines(home)[-last:]]


def ledger_lines(home: str) -> List[bytes]:
    """The lines of a ledger; none where there is no ledger."""
    try:
        with open_regular(os.path.join(home, LEDGER)) as file:
            return [line for line in file.read().split(b"\n") if line]
    except FileNotFoundError:
        return []


def entry(line: bytes) -> Dict[str, Any]:
    """An entry from its line. An unreadable line is reported as damaged and does not affect the
    others."""
    with suppress(ValueError):
        found = parse_object(line)
        if not wrong_entry(found):
            return found
    return {"kind": "damaged", "line": line[:200].decode("utf-8", "backslashreplace")}


def folders(path: str) -> List[str]:
    """The directories in one, links and hidden ones left out: those are on their way out."""
    try:
        with os.scandir(path) as found:
            names = [one.name for one in found if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not name.startswith("."))
