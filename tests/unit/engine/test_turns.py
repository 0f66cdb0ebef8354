"""Waves as data, and whose turn it is. What waits here waits for causes: threads, no clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from deployctl import cancel
from deployctl.cancel import Cancelled, Token, watching
from deployctl.config.profile import Profile
from deployctl.engine.connections.pool import Job, Slots, each
from deployctl.engine.run.placement import Group, groups, placements
from deployctl.engine.run.turns import HeldBack, Turns
from deployctl.engine.strategies.blue_green import BlueGreen
from deployctl.engine.strategies.interface import GroupPlan, Handover, Strategy, Wave, in_waves
from deployctl.engine.strategies.recreate import Recreate
from deployctl.engine.strategies.registry import STRATEGIES


class OneByOne(Strategy):
    """A strategy in which each group waits for the one before."""

    name = "one-by-one"
    together = True

    def waves(self, plans: Sequence[GroupPlan]) -> tuple[Wave, ...]:
        return tuple((plan.group,) for plan in plans if plan.switches)


def profile(*hosts: str) -> Profile:
    return Profile.model_validate(
        {
            "name": "toy",
            "hosts": [{"name": name, "ssh": {"address": name}} for name in hosts],
            "model": {"path": "/models/target", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123, "gpus": [0, 1]},
        }
    )


def of(*hosts: str) -> tuple[Group, ...]:
    return groups(placements(profile(*hosts)))


def test_a_placement_is_one_unit_on_one_host() -> None:
    first, second = placements(profile("a", "b"))
    assert (first.host.name, first.unit, first.role, first.group) == ("a", "server", "server", "a")
    assert (first.rank, first.port, first.gpus) == (0, 8123, (0, 1))
    assert [group.head for group in of("a", "b")] == [first, second]


@pytest.mark.parametrize(
    ("plans", "waves"),
    [
        ([], ()),
        ([GroupPlan("a", True), GroupPlan("b", False), GroupPlan("c", True)], (("a", "c"),)),
        ([GroupPlan("a", False)], ()),
    ],
)
def test_groups_by_themselves_switch_all_at_once(
    plans: list[GroupPlan], waves: tuple[Wave, ...]
) -> None:
    assert {strategy().waves(plans) for strategy in STRATEGIES.values()} == {waves}


@pytest.mark.parametrize(
    ("at_once", "waves"),
    [
        (1, (("a",), ("b",), ("d",))),
        (2, (("a", "b"), ("d",))),
        (5, (("a", "b", "d"),)),
        (None, (("a", "b", "d"),)),
    ],
)
def test_a_wave_has_so_many_groups(at_once: int | None, waves: tuple[Wave, ...]) -> None:
    plans = [GroupPlan(name, name != "c") for name in "abcd"]
    assert in_waves(plans, at_once) == waves


@pytest.mark.parametrize(
    ("strategy", "live", "stays", "handover"),
    [
        (Recreate(), None, False, Handover("server")),
        (Recreate(), "server", True, Handover("server")),
        (BlueGreen(), None, False, Handover("blue", None, routed=True)),
        (BlueGreen(), "blue", True, Handover("blue", None, routed=True)),
        (BlueGreen(), "blue", False, Handover("green", "blue", routed=True)),
        (BlueGreen(), "green", False, Handover("blue", "green", routed=True)),
    ],
)
def test_where_a_release_is_started_and_what_makes_way(
    strategy: Strategy, live: str | None, stays: bool, handover: Handover
) -> None:
    assert strategy.handover(live, stays) == handover


def worker(turns: Turns, host: str, done: list[str], fails: bool = False) -> Callable[[], None]:
    def work() -> None:
        with turns.slots.taken():
            turns.planned(host, switches=True, serves=False)
            try:
                turns.switch(host)
                done.append(host)
            except HeldBack as error:
                done.append(f"{host} held back: {error}")
            turns.ended(host, fails)

    return work


def all_of(*work: Callable[[], None]) -> None:
    jobs = [Job("work", one) for one in work]
    for job in jobs:
        job.start()
    for job in jobs:
        job.result()


def test_a_wave_begins_when_the_one_before_has_ended() -> None:
    done: list[str] = []
    turns = Turns(OneByOne(), of("a", "b", "c"), Slots(1))
    all_of(*(worker(turns, host, done) for host in ("c", "b", "a")))
    assert sorted(done) == ["a", "b", "c"]


def test_the_waves_are_in_the_order_of_the_strategy() -> None:
    done: list[str] = []
    turns = Turns(OneByOne(), of("a", "b", "c"), Slots())
    for host in ("a", "b", "c"):
        turns.planned(host, switches=True, serves=True)
    all_of(*(worker(turns, host, done) for host in ("c", "b", "a")))
    assert done == ["a", "b", "c"]


def test_a_failure_keeps_the_later_waves_from_beginning() -> None:
    done: list[str] = []
    turns = Turns(OneByOne(), of("a", "b"), Slots())
    for host in ("a", "b"):
        turns.planned(host, switches=True, serves=True)
    all_of(worker(turns, "b", done), worker(turns, "a", done, fails=True))
    assert done == ["a", "b held back: a failed"]


def test_a_host_that_dropped_out_is_waited_for_by_nobody() -> None:
    done: list[str] = []
    turns = Turns(OneByOne(), of("a", "b"), Slots())
    turns.ended("a", failed=False)
    all_of(worker(turns, "b", done))
    assert done == ["b"]


def test_hosts_by_themselves_wait_for_nobody_unless_failing_is_to_be_fast() -> None:
    done: list[str] = []
    turns = Turns(Recreate(), of("a", "b"), Slots())
    turns.ended("a", failed=True)
    turns.begin()
    worker(turns, "b", done)()
    turns = Turns(Recreate(), of("a", "b"), Slots(), fail_fast=True)
    turns.begin()
    turns.ended("a", failed=True)
    worker(turns, "b", done)()
    assert done == ["b", "b held back: a failed"]
    with pytest.raises(HeldBack):
        turns.begin()


def locks(turns: Turns, host: str, taken: list[str]) -> Callable[[], None]:
    def work() -> None:
        with turns.slots.taken():
            turns.lock(host)
            taken.append(host)
            turns.locked(host)

    return work


@pytest.mark.parametrize("count", [1, 3])
def test_locks_are_taken_in_the_order_of_names(count: int) -> None:
    taken: list[str] = []
    turns = Turns(OneByOne(), of("c", "a", "b"), Slots(count))
    all_of(*(locks(turns, host, taken) for host in ("c", "b", "a")))
    assert taken == ["a", "b", "c"]


def test_a_host_without_a_lock_that_has_ended_is_waited_for_by_nobody() -> None:
    taken: list[str] = []
    turns = Turns(OneByOne(), of("a", "b"), Slots())
    turns.ended("a", failed=True)
    locks(turns, "b", taken)()
    assert taken == ["b"]


def test_two_runs_whose_hosts_wait_for_each_other_do_not_wait_for_ever() -> None:
    held = {"a": threading.Lock(), "b": threading.Lock()}
    together: list[int] = []

    def run(*hosts: str) -> list[Callable[[], None]]:
        turns, all_locked = Turns(OneByOne(), of(*hosts), Slots()), threading.Barrier(2)

        def one(host: str) -> None:
            with turns.slots.taken():
                turns.lock(host)
                with held[host]:
                    turns.locked(host)
                    all_locked.wait()
                    together.append(sum(lock.locked() for lock in held.values()))

        return [lambda host=host: one(host) for host in hosts]  # type: ignore[misc]

    all_of(*run("a", "b"), *run("b", "a"))
    assert len(together) == 4


@pytest.mark.parametrize(
    ("strategy", "hosts", "moving", "bound"),
    [
        (Recreate(), ("a", "b"), False, False),
        (Recreate(), ("a", "b"), True, True),
        (OneByOne(), ("a", "b"), False, True),
        (OneByOne(), ("a",), True, False),
    ],
)
def test_which_runs_wait_while_they_hold_locks(
    strategy: Strategy, hosts: tuple[str, ...], moving: bool, bound: bool
) -> None:
    assert Turns(strategy, of(*hosts), Slots()).bound(moving) is bound


def test_who_waits_for_a_turn_is_interrupted() -> None:
    token, turns = Token(), Turns(OneByOne(), of("a", "b"), Slots(1))

    def waits() -> None:
        with turns.slots.taken(), watching(token):
            turns.planned("b", switches=True, serves=True)
            turns.switch("b")

    job = Job("b", waits)
    job.start()
    with turns.slots.taken():
        token.cancel()
    with pytest.raises(Cancelled):
        job.result()


def test_no_more_are_at_work_than_there_are_slots() -> None:
    at_work, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3)

    def work(number: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        together.wait()
        with lock:
            at_work -= 1
        return number * 2

    assert each(range(9), work, Slots(3)) == [number * 2 for number in range(9)]
    assert most == 3


def test_the_first_failure_is_raised_once_all_have_ended() -> None:
    ended = []

    def work(number: int) -> None:
        ended.append(number)
        if number:
            raise ValueError(str(number))

    with pytest.raises(ValueError, match="1"):
        each(range(4), work, Slots())
    assert sorted(ended) == [0, 1, 2, 3]


def test_a_slot_is_given_while_its_owner_waits() -> None:
    slots = Slots(1)
    with slots.taken(), slots.given(), slots.taken():
        pass
    cancel.check()
