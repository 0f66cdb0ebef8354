"""Counts of single requests, recorded on a real server."""

from __future__ import annotations

import json
from pathlib import Path

from deployctl.vllm.counters.counts import Counts

FILE = Path(__file__).parents[2] / "cases" / "acceptance" / "recorded.json"


def populations() -> dict[str, list[Counts]]:
    """Recorded requests by name: the prompt sets with the right config, and `stale`."""
    document = json.loads(FILE.read_text())
    named = {**document["full"], "stale": document["stale"]["code"]}
    return {
        name: [Counts(row[0], row[1], row[2], tuple(row[3])) for row in rows]
        for name, rows in named.items()
    }
