"""Durations, as people write them in a profile and on the command line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from deployctl.config.base import Duration
from tests.unit.config.test_routed import profile

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


def test_a_bare_number_is_seconds_in_every_section() -> None:
    found = profile(
        router={"port": 9000, "health": {"interval": 5, "timeout": "5"}},
        roll={"wait": 5},
        replicas={"drain": "5"},
        serve={"port": 1, "host": "0.0.0.0", "stop_grace": 5, "liveness": {"interval": 5}},
    )
    assert found.router is not None and found.serve.liveness
    health = found.router.health
    given = (health.interval, health.timeout, found.roll.wait, found.replicas.drain)
    assert {*given, found.serve.stop_grace, found.serve.liveness.interval} == {5.0}
    with pytest.raises(ValidationError, match="or as a number of seconds"):
        profile(roll={"wait": "soon"})
