"""Whose a port is, from two looks that are a moment apart."""

from __future__ import annotations

from typing import Any

from deployctl.steps.servers.process import strangers


def process(pid: int, start: int, parent: int) -> Any:
    return {"pid": pid, "start": start, "parent": parent}


UNIT: Any = {"members": [process(100, 1, 1), process(101, 2, 100)]}


def test_a_member_and_its_newest_child_are_no_strangers() -> None:
    holders = [process(100, 1, 1), process(101, 2, 100), process(140, 9, 100)]
    port: Any = {"holders": holders}
    assert strangers(port, UNIT) == []


def test_another_program_is_one_and_so_is_the_number_of_a_member_given_anew() -> None:
    holders = [process(200, 3, 1), process(100, 7, 1)]
    port: Any = {"holders": holders}
    assert strangers(port, UNIT) == holders
