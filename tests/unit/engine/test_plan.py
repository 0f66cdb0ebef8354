"""Planning is pure: from what is wanted and what was answered to what would change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from deployctl.config.profile import Profile
from deployctl.engine.run import plan
from deployctl.errors import ConfigError, StagingFailed
from deployctl.hosts.session import Call
from deployctl.steps.facts import SOURCE, UNIT
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
    Unanswered,
    Unknown,
)

PROFILE = {
    "name": "toy",
    "hosts": [{"name": "here", "local": True}],
    "model": {"path": "/models/target", "served_name": "toy"},
    "build": {"source": {"release": "0.32.0"}},
    "serve": {"port": 8123},
}


def wanted(skip: Sequence[str] = ()) -> Deployment:
    profile = Profile.model_validate(PROFILE)
    return Deployment(profile, profile.hosts[0], skip=frozenset(skip))


class Toy(Step):
    """A step that wants `answers[name]` to be true."""

    name = "toy"
    phase = "stage"
    failure = StagingFailed
    needs_release = False

    def __init__(self, name: str, uses: tuple[str, ...] = (), phase: Any = "stage") -> None:
        self.name, self.uses, self.phase = name, uses, phase  # type: ignore[misc]
        self.produces = frozenset({name})  # type: ignore[misc]

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return [Question(Key(self.name), Call("toy.ask", name=self.name))]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        if answers[Key[bool](self.name)]:
            return Plan("unchanged")
        return Plan("change", (Change(self.name, False, True),))

    def prove(self, context: Context) -> Evidence:
        raise AssertionError("planning proves nothing")


def statuses(steps: Sequence[Step], answers: dict[str, Any], skip: Sequence[str] = ()) -> list[str]:
    made = plan.make(steps, wanted(skip), Answers(answers))
    return [f"{p.step.name} {p.plan.status}" for p in made.steps]


CHAIN = (Toy("build"), Toy("verify", ("build",)), Toy("smoke", ("verify",), "gate"))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            {"build": True, "verify": True, "smoke": True},
            ["build unchanged", "verify unchanged", "smoke unchanged"],
        ),
        (
            {"build": False, "verify": True, "smoke": True},
            ["build change", "verify change", "smoke check"],
        ),
        (
            {"build": True, "verify": False, "smoke": True},
            ["build unchanged", "verify change", "smoke check"],
        ),
        (
            {"build": Unknown("network", "git is out of reach"), "verify": True, "smoke": True},
            ["build unknown", "verify unchanged", "smoke unchanged"],
        ),
    ],
)
def test_what_a_change_brings_with_it(answers: dict[str, Any], expected: list[str]) -> None:
    assert statuses(CHAIN, answers) == expected


def test_a_skipped_step_is_not_planned() -> None:
    answers = {"build": False, "verify": True, "smoke": True}
    assert statuses(CHAIN, answers, ["build"]) == ["verify unchanged", "smoke unchanged"]


def test_an_unknown_answer_is_told_with_its_reason() -> None:
    made = plan.make(CHAIN[:1], wanted(), Answers({"build": Unknown("network", "no route")}))
    assert made.blocked is not None
    assert made.blocked.plan.reason == "build: no route"
    assert not made.idle


def test_an_answer_that_was_never_asked_for_is_unknown_not_a_crash() -> None:
    with pytest.raises(Unanswered, match="it was not checked"):
        Answers({})[SOURCE]


def test_questions_are_asked_once_and_a_key_means_one_thing() -> None:
    asked = plan.questions([Toy("build"), Toy("build")], wanted())
    assert list(asked) == ["releases", "build"]
    odd = Toy("build")
    odd.questions = lambda wanted: [Question(Key("build"), Call("other.op"))]  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="two questions have the key build"):
        plan.questions([Toy("build"), odd], wanted())


def test_an_unknown_step_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no such step: biuld") as raised:
        plan.select(["biuld"], {"build": Toy("build")})
    assert raised.value.next == "known steps: build"


def test_what_is_asked_again_takes_the_place_of_the_older_answer_alone() -> None:
    first = Answers({"build": Unknown("network", "no route"), "unit": {"state": "running"}})
    again = first.renewed(Answers({"build": True}))
    assert again[Key[bool]("build")] is True
    assert again[UNIT]["state"] == "running"


class Needless(Toy):
    """A step of which nothing is asked."""

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        return Plan("unchanged", needless=True)


def test_what_nothing_is_asked_of_does_not_run_again() -> None:
    steps = [Toy("first"), Needless("second", uses=("first",))]
    made = plan.make(steps, wanted(), Answers({"first": False, "second": True}))
    assert [planned.plan.status for planned in made.steps] == ["change", "unchanged"]
