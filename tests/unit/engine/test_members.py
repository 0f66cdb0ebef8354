"""The meeting of a group's workers: what waits here waits for causes, with threads and no clock."""

from __future__ import annotations

import pytest

from deployctl.engine.connections.pool import Job, Slots
from deployctl.engine.run.members import BACK, TRY, Members
from deployctl.steps.member import PeerFailed, differing

HOSTS = ("a", "b", "c")


def members() -> Members:
    return Members(HOSTS, Slots(3))


def each(found: Members, key: str) -> list[Job[object]]:
    slots = found._slots

    def meet(host: str) -> object:
        with slots.taken():
            return found.meet(host, TRY, key, host.upper())

    jobs: list[Job[object]] = [Job(host, lambda host=host: meet(host)) for host in HOSTS]  # type: ignore[misc]
    for job in jobs:
        job.start()
    return jobs


def test_all_go_on_once_all_have_come() -> None:
    told = [job.result() for job in each(members(), "here")]
    assert told == [{"a": "A", "b": "B", "c": "C"}] * 3


def test_one_that_leaves_or_fails_ends_the_wait_of_the_others() -> None:
    for end in (Members.left, lambda them, host, why: them.failed(host, TRY, why)):
        found = members()
        waiting = Job("a", lambda found=found: _meet(found))  # type: ignore[misc]
        waiting.start()
        end(found, "b", "the cable is cut")
        with pytest.raises(PeerFailed, match="b: the cable is cut"):
            waiting.result()


def test_a_failure_counts_in_its_own_stretch_and_not_for_itself() -> None:
    found = members()
    found.failed("b", TRY, "the gate failed")
    found.check("b", TRY)
    found.check("a", BACK)
    with pytest.raises(PeerFailed):
        found.check("a", TRY)


def test_who_has_left_is_not_waited_for_where_the_others_do_not_need_it() -> None:
    found = members()
    found.left("b", "unreachable")
    found.left("c", "unreachable")
    with found._slots.taken():
        assert found.every("a", "plan", True) == {"a": True}


def test_a_server_of_its_own_meets_nobody() -> None:
    alone = Members(("a",), Slots())
    assert alone.every("a", "plan", True) == {"a": True}
    assert alone.any("a", "plan", False) is False
    assert alone.at("a").meet("here") == {}


def test_the_first_two_that_differ() -> None:
    told = {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 2}}
    assert differing(told, lambda one: one["x"]) == ("a", 1, "c", 2)
    assert differing(told, lambda one: 0) is None


def _meet(found: Members) -> object:
    with found._slots.taken():
        return found.meet("a", TRY, "here", None)
