"""Rolling: waves as data, and whose turn it is to go back."""

from __future__ import annotations

import pytest

from deployctl.config.router import RollSettings
from deployctl.engine.connections.pool import Job, Slots
from deployctl.engine.run.turns import HeldBack, Turns
from deployctl.engine.strategies.interface import GroupPlan, Wave
from deployctl.engine.strategies.rolling import Rolling, number
from tests.unit.engine.test_turns import of


def plans(serving: str, idle: str = "", unchanged: str = "") -> list[GroupPlan]:
    found = {name: GroupPlan(name, name not in unchanged, True) for name in serving}
    found |= {name: GroupPlan(name, name not in unchanged, False) for name in idle}
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize(
    ("at_once", "groups", "waves"),
    [
        # One after the other.
        (1, plans("abc"), (("a",), ("b",), ("c",))),
        (2, plans("abcd"), (("a", "b"), ("c", "d"))),
        ("50%", plans("abcd"), (("a", "b"), ("c", "d"))),
        ("25%", plans("abc"), (("a",), ("b",), ("c",))),
        # One that serves is always left, where there is another.
        (5, plans("abc"), (("a", "b"), ("c",))),
        ("100%", plans("ab"), (("a",), ("b",))),
        (1, plans("a"), (("a",),)),
        # What serves nothing has nothing to lose, and goes first.
        (1, plans("ac", idle="b"), (("b",), ("a",), ("c",))),
        (2, plans("a", idle="bc"), (("b", "c"), ("a",))),
        (1, plans("", idle="abc"), (("a", "b", "c"),)),
        # What has nothing to switch is in no wave.
        (1, plans("abc", unchanged="b"), (("a",), ("c",))),
        (1, plans("abc", unchanged="abc"), ()),
    ],
)
def test_waves_leave_something_that_serves(
    at_once: int | str, groups: list[GroupPlan], waves: tuple[Wave, ...]
) -> None:
    assert Rolling(at_once).waves(groups) == waves


@pytest.mark.parametrize(
    ("at_once", "groups", "size"),
    [(3, 10, 3), ("25%", 20, 5), ("25%", 7, 1), ("1%", 3, 1), ("100%", 4, 4), ("99%", 4, 3)],
)
def test_a_share_of_the_groups(at_once: int | str, groups: int, size: int) -> None:
    assert number(at_once, groups) == size


@pytest.mark.parametrize(
    ("tolerate", "broken", "held_back"),
    [
        (0, "b", "b failed"),
        (1, "b", ""),
        (1, "bd", "b, d failed"),
        ("25%", "", ""),
        ("25%", "c", ""),
        ("25%", "cd", "c, d failed"),
        ("50%", "cd", ""),
        ("0%", "c", "c failed"),
    ],
)
def test_so_many_may_be_broken_before_they_switch(
    tolerate: int | str, broken: str, held_back: str
) -> None:
    settings = RollSettings.model_validate({"tolerate": tolerate})
    turns = Turns(Rolling(1), of(*"abcd"), Slots(), roll=settings)
    for host in "abcd":
        turns.planned(host, switches=True, serves=True)
    for host in broken:
        turns.ended(host, failed=True)
    left = [host for host in "abcd" if host not in broken]
    for host in left[1:]:
        turns.ended(host, failed=False)
    if held_back:
        with pytest.raises(HeldBack, match=held_back):
            turns.switch("a")
        return
    turns.switch("a")
    assert turns.number("a") == 1 and not any(turns.number(host) for host in broken)
    # One that has switched is another matter.
    turns.ended("a", failed=True)
    with pytest.raises(HeldBack, match="a failed"):
        turns.switch("b")


def test_a_held_lock_is_not_tolerated() -> None:
    settings = RollSettings.model_validate({"tolerate": 3})
    turns = Turns(Rolling(1), of(*"abcd"), Slots(), roll=settings)
    turns.ended("b", failed=True, broken=False)
    with pytest.raises(HeldBack, match="b failed"):
        turns.switch("a")


def roll(failing: str, on_failure: str = "back") -> list[str]:
    """What three hosts do, of which one fails: in the order in which they did it."""
    done: list[str] = []
    settings = RollSettings.model_validate({"on_failure": on_failure})
    turns = Turns(Rolling(1), of("a", "b", "c"), Slots(1), roll=settings)
    for host in "abc":
        turns.planned(host, switches=True, serves=True)

    def work(host: str) -> None:
        with turns.slots.taken():
            try:
                turns.switch(host)
            except HeldBack:
                done.append(f"{host} held back")
                turns.ended(host, failed=False)
                return
            done.append(host)
            if host != failing and turns.passed(host) == failing and turns.on_failure == "back":
                turns.back(host)
                done.append(f"{host} back")
            turns.ended(host, host == failing)

    jobs = [Job(host, lambda host=host: work(host)) for host in "abc"]  # type: ignore[misc]
    for job in jobs:
        job.start()
    for job in jobs:
        job.result()
    return done


def test_those_that_switched_last_go_back_first() -> None:
    assert roll(failing="c") == ["a", "b", "c", "b back", "a back"]


def test_a_failure_holds_back_the_rest() -> None:
    first, *rest = roll(failing="a")
    assert first == "a" and sorted(rest) == ["b held back", "c held back"]
    assert roll(failing="", on_failure="stop") == ["a", "b", "c"]


def test_those_that_switched_stay_where_the_profile_wants_that() -> None:
    assert roll(failing="b", on_failure="stop") == ["a", "b", "c held back"]


def test_what_one_host_does_not_try_again_none_tries() -> None:
    """Else a release that failed on the first would fail on another one every night."""
    turns = Turns(Rolling(1), of("a", "b"), Slots())
    turns.decline("a: release x failed in run r")
    turns.planned("a", switches=False, serves=True)
    turns.planned("b", switches=True, serves=True)
    turns.ended("a", failed=False)
    with pytest.raises(HeldBack, match="a: release x failed in run r"):
        turns.switch("b")
