"""Durations, as people write them in a profile and on the command line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from deployctl.config.base import Duration

DURATION: TypeAdapter[float] = TypeAdapter(Duration)
PATTERN = DURATION.json_schema()["anyOf"][1]["pattern"]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (10, 10),
        ("10", 10),
        ("0.5", 0.5),
        ("90s", 90),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1h 30m", 5400),
    ],
)
def test_what_is_taken(written: Any, seconds: float) -> None:
    assert DURATION.validate_python(written) == seconds
    assert isinstance(written, int) or re.search(PATTERN, written)


@pytest.mark.parametrize(
    "written", ["soon", "", "2 d", "10 apples", "-5", "5x", "1e3", "٣s", "nan"]
)
def test_what_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        DURATION.validate_python(written)
    assert not re.search(PATTERN, written)
