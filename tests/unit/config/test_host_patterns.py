"""Patterns of hosts as Ansible takes them: pattern in, hosts out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.config.host_patterns import PatternError, select

HOSTS = ["gpu1", "gpu2", "gpu3", "ct129", "cpu-a"]
GROUPS = {"gpu": ["gpu1", "gpu2", "gpu3", "ct129"], "rack1": ["gpu1", "cpu-a"], "empty": []}


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("gpu1", ["gpu1"]),
        ("all", HOSTS),
        ("*", HOSTS),
        ("gpu:!ct129", ["gpu1", "gpu2", "gpu3"]),
        ("!ct129:gpu", ["gpu1", "gpu2", "gpu3"]),
        ("gpu:&rack1", ["gpu1"]),
        ("gpu2,cpu-a", ["gpu2", "cpu-a"]),
        ("cpu-a:gpu2", ["gpu2", "cpu-a"]),
        ("gpu?", ["gpu1", "gpu2", "gpu3"]),
        ("*a*", ["gpu1", "cpu-a"]),
        ("!gpu", ["cpu-a"]),
        ("~gpu[12]", ["gpu1", "gpu2"]),
        ("~(ct|cpu).*", ["ct129", "cpu-a"]),
        ("gpu[0]", ["gpu1"]),
        ("gpu[-1]", ["ct129"]),
        ("gpu[0:1]", ["gpu1", "gpu2"]),
        ("gpu[2:]", ["gpu3", "ct129"]),
        ("gpu[1:-1]", ["gpu2", "gpu3", "ct129"]),
        ("rack*", ["gpu1", "cpu-a"]),
    ],
)
def test_patterns(pattern: str, chosen: list[str]) -> None:
    assert select(pattern, HOSTS, GROUPS) == chosen


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("gup1", "did you mean gpu1"),
        ("nothing*", "has no host or group that matches"),
        ("gpu1:!gpu1", "has no host left"),
        ("gpu[12]", "has no host left"),
        ("~[", "not a regular expression"),
        ("gpu1:!gup2", "did you mean gpu2"),
    ],
)
def test_what_names_nothing(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        select(pattern, HOSTS, GROUPS)


@given(st.text("gpu1ct29*?[]:,!&~-a", max_size=12))
def test_any_pattern_chooses_known_hosts_or_is_refused(pattern: str) -> None:
    try:
        assert set(select(pattern, HOSTS, GROUPS)) <= set(HOSTS)
    except PatternError:
        pass
