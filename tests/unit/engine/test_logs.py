"""Logs of several hosts as one: each line with its host, a failure after what the others have."""

from __future__ import annotations

import queue

import pytest

from deployctl.engine.inspect.logs import Said, _merged
from deployctl.errors import Unreachable

GONE = Unreachable("b", "no answer", "", "")


def said(*items: tuple[int, Said]) -> queue.Queue[tuple[int, Said]]:
    found: queue.Queue[tuple[int, Said]] = queue.Queue()
    for item in items:
        found.put(item)
    return found


def test_one_host_after_another() -> None:
    items = said((1, "x\ny\n"), (0, "1\n"), (1, None), (0, "2"), (0, None))
    text = "".join(_merged(["one", "other"], items, as_written=False))
    assert text == "one   | 1\none   | 2\nother | x\nother | y\n"


def test_lines_come_as_they_are_written_and_whole() -> None:
    items = said((0, "1\n2"), (1, "x\n"), (0, "3\n"), (1, "y"), (1, None), (0, None))
    parts = [part for part in _merged(["a", "b"], items, as_written=True) if part]
    assert parts == ["a | 1\n", "b | x\n", "a | 23\n", "b | y\n"]


def test_a_host_that_fails_hides_no_other() -> None:
    items = said((1, GONE), (1, None), (0, "1\n"), (0, None))
    shown = []
    with pytest.raises(Unreachable):
        for part in _merged(["a", "b"], items, as_written=False):
            shown.append(part)
    assert "".join(shown) == "a | 1\n"
