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
    @/profiles/<name>/releases/<id>/           manifest.json, drafter/, launch.json
    @/profiles/<name>/{current,previous}       links to a release
    @/profiles/<name>/{ledger.jsonl,lock}
    @/profiles/<name>/server/                  the supervised server: state, log
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


def digest(value: Any, length: int = 12) -> str:
    """The first hex digits of the SHA-256 of canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True)
class ReleasePaths:
    """Where one release of a profile lies; `@` stands for the host's root."""

    profile: str
    release: str
    environment_key: str

    @property
    def home(self) -> str:
        return f"@/profiles/{self.profile}"

    @property
    def directory(self) -> str:
        return f"{self.home}/releases/{self.release}"

    @property
    def environment(self) -> str:
        return f"@/environments/{self.environment_key}"

    @property
    def drafter(self) -> str:
        """The release's own view of the drafter: config.json is a file, weights are links."""
        return f"{self.directory}/drafter"

    @property
    def server(self) -> str:
        return f"{self.home}/server"
