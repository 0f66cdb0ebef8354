"""JSON that others wrote, read so that no later work on it can fail for its depth."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100
"""Levels; a config.json of a model has about five."""


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError for any other text, and for one that is nested
    deeper than 100 levels."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _inside(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in inner if isinstance(one, dict | list)]
