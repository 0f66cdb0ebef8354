"""Tests that prove one thing at many points: a few of them in `scripts/test`, the others slow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some(points: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """The points of a parametrized test; those that are not in `always` are slow."""
    return [
        point if point in always else pytest.param(point, marks=pytest.mark.slow)
        for point in points
    ]
