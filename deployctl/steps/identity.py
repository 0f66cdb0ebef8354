"""Names that follow from what is wanted: of an environment, of a release, and where they lie.

An environment (the built Python environment) and a release are named by a digest of everything
that makes them, so the same wish finds the same directory, and another wish never touches it.
On the host, under its root (`@`)::

    @/agent/<sha256>.pyz                       the agent
    @/jobs/<id>/                               one long command
    @/wheels/<key>/                            built wheels
    @/models/<slug>/                           fetched or bundled models
    @/environments/<key>/                      a built environment, sealed by `seal.json`;
                                               <key>-2 after one that was damaged
    @/compiled/<key>/                          what servers of that environment have compiled
    @/profiles/<name>/{ledger.jsonl,lock}
    @/profiles/<name>/units/<unit>/            one supervised process of a profile:
        releases/<id>/                         manifest.json, drafter/, launch.json
        {current,previous}                     links to a release
        server/                                its state and log
        next/                                  a server that waits for its turn
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, TypedDict

MAIN, FRONT = "server", "front"
"""The names of a profile's own unit, and of what leads its clients to one of several."""
ROUTER, PROXY = "router", "proxy"
"""The names of the unit that clients ask instead of one of several replicas, and of one before it
that passes on what clients may ask."""
SLOTS = ("blue", "green")
"""The units of a profile that has two beside each other."""


def replica_unit(number: int) -> str:
    """The unit of one of several replicas on a host, counted from 1."""
    return MAIN if number == 1 else f"{MAIN}-{number}"


def replica_number(unit: str) -> int | None:
    """Which replica of a host a unit is, counted from 1; None for any other unit."""
    if unit == MAIN:
        return 1
    found = re.fullmatch(rf"{MAIN}-([1-9][0-9]*)", unit)
    return int(found[1]) if found else None


class UnitId(TypedDict):
    """Which unit of a host an operation of the agent is about."""

    profile: str
    unit: str


def unit_home(unit: UnitId) -> str:
    """Where a unit has its directory; `@` stands for the host's root."""
    return f"@/profiles/{unit['profile']}/units/{unit['unit']}"


def full_name(profile: str, unit: str) -> str:
    """A unit as people call it: the profile's own unit has its name."""
    return profile if unit == MAIN else f"{profile}.{unit}"


def digest(value: Any, length: int = 12) -> str:
    """The first hex digits of the SHA-256 of canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True)
class ReleasePaths:
    """Where one release of a unit lies; `@` stands for the host's root."""

    profile: str
    release: str
    environment_key: str
    unit: str = MAIN

    @property
    def home(self) -> str:
        return unit_home(self.unit_id)

    @property
    def directory(self) -> str:
        return f"{self.home}/releases/{self.release}"

    @property
    def environment(self) -> str:
        return f"@/environments/{self.environment_key}"

    @property
    def compiled(self) -> str:
        """Code that servers of the same environment have compiled."""
        return f"@/compiled/{self.environment_key}"

    @property
    def drafter(self) -> str:
        """The release's own view of the drafter: config.json is a file, weights are links."""
        return f"{self.directory}/drafter"

    @property
    def unit_id(self) -> UnitId:
        """The unit that it is a release of."""
        return {"profile": self.profile, "unit": self.unit}
