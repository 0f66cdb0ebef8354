"""Workers that meet over what they share; what waits here waits for causes: threads, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.pool import Job, Slots
from deployctl.engine.shipping import carrying, meeting
from deployctl.engine.shipping.meeting import Meeting
from deployctl.engine.shipping.needs import Need
from deployctl.engine.shipping.orders import Order
from deployctl.errors import HostError, StagingFailed
from deployctl.steps.delivery import MakesItself
from deployctl.steps.interface import Answers, Context, Deployment
from tests.unit.engine.test_turns import profile

KEY = "k"
HAS, MAKES, LACKS = (
    Need(KEY, True, None),
    Need(KEY, False, True),
    Need(KEY, False, False, "offline"),
)
CONNECTED = cast(Connected, None)


class Run:
    """A run over hosts that need these; `carried` are the orders that were carried out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, needs: Mapping[str, Need]) -> None:
        self.meeting = Meeting(profile(*needs), Slots(1))
        self.carried: list[list[str]] = []
        self.wanted = {
            host.name: Deployment(p, host) for p in [profile(*needs)] for host in p.hosts
        }

        def carry(order: Order, way: str, port: int | None) -> dict[str, Any]:
            self.carried.append(sorted(order.waiting))
            if order.failure is not None:
                return dict.fromkeys(order.waiting, order.failure)
            return {host: {"delivery": {}, "producer": {}} for host in order.waiting}

        monkeypatch.setattr(
            meeting, "needs", lambda steps, wanted, _: {"model": needs[wanted.host.name]}
        )
        monkeypatch.setattr(meeting, "reach_question", lambda wanted, answers: None)
        monkeypatch.setattr(carrying, "carry", carry)

    def settle(self, host: str) -> Context:
        wanted, answers = self.meeting.settle(CONNECTED, (), self.wanted[host], Answers({}))
        nobody: Any = None
        notes: list[str] = []
        return Context(wanted, answers, nobody, nobody, nobody, lambda *_, **__: None, notes.append)

    def work(self, host: str, error: StagingFailed | None = None) -> Any:
        """One host's part: what it received, or what it failed with."""
        result: Any = None
        with self.meeting._slots.taken():
            context = self.settle(host)
            self.meeting.attend(context)
            delivery = context.wanted.deliveries.get("model")
            try:
                if delivery is not None and delivery.receives:
                    result = self.meeting.receive(context, "model", "@/models/m")
                elif delivery is not None and error is None:
                    self.meeting.made(context, "model")
            except MakesItself as instead:
                result = instead
                if error is None:
                    self.meeting.made(context, "model")
            except HostError as failed:
                result = failed
            if error is None:
                self.meeting.serve(host, None)
        self.meeting.left(host, error)
        return result


def all_of(run: Run, **errors: StagingFailed | None) -> dict[str, Any]:
    jobs = {
        host: Job(host, lambda host=host: run.work(host, errors.get(host)))  # type: ignore[misc]
        for host in run.wanted
    }
    for job in jobs.values():
        job.start()
    return {host: job.result() for host, job in jobs.items()}


@pytest.mark.parametrize("first", [HAS, MAKES])
def test_those_who_lack_it_get_it_at_once(monkeypatch: pytest.MonkeyPatch, first: Need) -> None:
    run = Run(monkeypatch, {"a": LACKS, "b": first, "c": MAKES})
    found = all_of(run)
    assert run.carried == [["a", "c"]]
    assert found["b"] is None and found["a"] == found["c"] != None  # noqa: E711
    (delivery,) = run.meeting.deliveries("b")
    assert (delivery.producer, delivery.receivers) == ("b", ("a", "c"))


def test_a_producer_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": MAKES, "b": LACKS})
    found = all_of(run, a=StagingFailed("a", "fetch", "the disk is full", "28", "free some"))
    assert isinstance(found["b"], HostError)
    assert "the disk is full" in found["b"].why and found["b"].next == "free some"


def test_another_one_takes_the_place_of_a_producer_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, {"a": MAKES, "b": LACKS, "c": MAKES, "d": MAKES})
    error = StagingFailed("a", "fetch", "the disk is full", "28", "free some")

    def all_wait() -> bool:
        orders = run.meeting._orders or {}
        return [{*order.waiting} for order in orders.values()] == [{"b", "c", "d"}]

    def fails() -> None:
        """Once all the others wait for it."""
        with run.meeting._slots.taken():
            run.settle("a")
            meeting = run.meeting
            with meeting._slots.given(), meeting._changed:
                meeting._changed.wait_for(all_wait, 60)
        run.meeting.left("a", error)

    jobs = {host: Job(host, lambda host=host: run.work(host)) for host in "bcd"}  # type: ignore[misc]
    jobs["a"] = Job("a", fails)
    for job in jobs.values():
        job.start()
    found = {host: job.result() for host, job in jobs.items()}
    assert str(found["c"]) == "model: made here, since a failed: fetch: the disk is full"
    assert run.carried == [["b", "d"]]
    assert found["b"] == found["d"] == {"delivery": {"producer": "c"}, "producer": {}}
    (delivery,) = run.meeting.deliveries("d")
    assert (delivery.producer, delivery.receivers, delivery.host) == ("c", ("b", "d"), "d")
    assert run.meeting.deliveries("a") == ()


def test_where_a_second_one_fails_the_others_do_not_try(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": MAKES, "b": MAKES, "c": MAKES})
    wrong = {host: StagingFailed(host, "fetch", f"no such model, {host}") for host in "ab"}
    found = all_of(run, **wrong)
    assert isinstance(found["c"], HostError) and "no such model, b" in found["c"].why


def test_nobody_waits_where_all_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": HAS, "b": HAS})
    assert not run.settle("a").wanted.deliveries
    assert all_of(run) == {"a": None, "b": None} and run.carried == []


def test_a_host_that_is_not_reached_keeps_none_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": LACKS, "b": MAKES, "c": LACKS})
    run.meeting.left("c", HostError("c", "no connection"))
    jobs = [Job(host, lambda host=host: run.work(host)) for host in ("a", "b")]  # type: ignore[misc]
    for job in jobs:
        job.start()
    assert [job.result() for job in jobs] == [{"delivery": {"producer": "b"}, "producer": {}}, None]
    assert run.carried == [["a"]]


def test_a_host_that_waited_for_its_lock_shares_if_it_comes_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, {"a": LACKS, "b": MAKES})
    run.meeting.left("a")  # it waits for another run
    found = all_of(run)  # and has its lock now
    assert found["a"] is None or found["a"]["delivery"] == {"producer": "b"}


def test_a_single_host_shares_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, {"a": MAKES})
    assert run.meeting.alone and not run.settle("a").wanted.deliveries
