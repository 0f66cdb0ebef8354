"""What a command adds to a profile and a playbook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deployctl.engine.connections.pool import PARALLEL
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run.hooks import Render


def no_document(run: RunRecord) -> Mapping[str, Any]:
    """Where no reports are rendered, hooks get the run's id alone."""
    return {"run": run.run}


@dataclass(frozen=True)
class Options:
    """What the command line adds to a profile and a playbook. `lock_wait` is in seconds."""

    skip: frozenset[str] = frozenset()
    steps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    check_gates: bool = False
    lock_wait: float = 0.0
    keep_failed: bool = False
    """Leave a release that failed its gate serving instead of going back."""
    render: Render = no_document
    """Makes the report's document, for hooks to read."""
    only_if_changed: bool = False
    """Do not try a release again that failed before under the same profile; keep what serves."""
    parallel: int = PARALLEL
    """Most hosts worked on at the same time."""
    fail_fast: bool = False
    """Begin with no further host, and switch none, once one has failed."""
    release: str = ""
    """Serve this earlier release, with its original configuration, not the current profile."""
