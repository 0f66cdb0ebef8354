"""What a moving name stands for is settled once a run, whoever is told what in the meantime."""

from __future__ import annotations

import threading
from typing import Any, cast

from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.pool import Job, Slots
from deployctl.engine.run.resolve import Resolution, settle
from deployctl.errors import RemoteError
from deployctl.steps.build import BuildStep
from deployctl.steps.facts import MODEL, SOURCE
from deployctl.steps.fetch import FetchStep
from deployctl.steps.interface import Answers, Deployment, Question, Unknown
from tests.unit.engine.test_turns import profile

HEAD, NEXT = "a" * 40, "b" * 40


def wanted(host: str) -> Deployment:
    settings = profile("one", "two").model_dump()
    settings["build"]["source"] = {"ref": "main"}
    settings["model"] = {"repo": "you/model", "served_name": "toy"}
    found = type(profile("one")).model_validate(settings)
    return Deployment(found, next(one for one in found.hosts if one.name == host))


class Host:
    """A host that answers with what its branches stand for, by the questions' arguments."""

    def __init__(self, source: str | None, model: str | None) -> None:
        self.source, self.model = source, model
        self.asked: list[dict[str, Any]] = []
        self.session = self.node = self

    def ask(self, calls: list[Any]) -> list[Any]:
        self.asked += [dict(call.args) for call in calls]
        return [self.answer(call.op, dict(call.args)) for call in calls]

    def answer(self, op: str, args: dict[str, Any]) -> Any:
        if op == "environment.resolve_source":
            if self.source is None:
                return RemoteError("host", op, "network", "no route")
            return {"identity": self.source, "commit": self.source, "ref": "refs/heads/main"}
        if op == "hub.survey":
            return {"commit": args["revision"] or self.model, "exists": False}
        return {}


def settled(resolution: Resolution, name: str, host: Host) -> tuple[Deployment, Answers]:
    one, steps = wanted(name), [BuildStep(), FetchStep()]
    asked: dict[str, Question[Any]] = {q.key: q for step in steps for q in step.questions(one)}
    values = {
        key: Unknown("network", "no route") if isinstance(answer, RemoteError) else answer
        for key, q in asked.items()
        for answer in [host.answer(q.call.op, dict(q.call.args))]
    }
    reached = cast(Connected, host)
    return settle(resolution, reached, steps, one, asked, Answers(values), Slots())


def test_both_go_by_what_the_first_was_told() -> None:
    resolution = Resolution(["one", "two"])
    one, first = settled(resolution, "one", Host(HEAD, HEAD))
    moved = Host(NEXT, NEXT)
    two, second = settled(resolution, "two", moved)
    assert one.settled == two.settled
    assert first[SOURCE]["commit"] == second[SOURCE]["commit"] == HEAD
    assert second[MODEL]["commit"] == HEAD
    (again,) = [args for args in moved.asked if "revision" in args]
    assert (again["revision"], again["always"]) == (HEAD, True)


def test_nothing_is_asked_again_where_nothing_moved() -> None:
    resolution, host = Resolution(["one", "two"]), Host(HEAD, HEAD)
    settled(resolution, "one", Host(HEAD, HEAD))
    settled(resolution, "two", host)
    assert host.asked == []


def test_a_host_that_cannot_tell_waits_for_one_that_can() -> None:
    resolution, begun = Resolution(["one", "two"]), threading.Event()

    def blind() -> Answers:
        begun.set()
        return settled(resolution, "one", Host(None, HEAD))[1]

    job = Job("one", blind)
    job.start()
    begun.wait()
    settled(resolution, "two", Host(HEAD, HEAD))
    assert job.result()[SOURCE]["commit"] == HEAD


def test_where_nobody_can_tell_it_stays_unknown() -> None:
    resolution = Resolution(["one", "two"])
    resolution.asked("two")
    deployment, answers = settled(resolution, "one", Host(None, None))
    assert deployment.settled == {}
    unknown = answers.unknown("source")
    assert unknown is not None and unknown.reason == "no route"
