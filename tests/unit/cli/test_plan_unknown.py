"""What a plan does not know is in its summary and its exit code, once, with its one reason."""

from __future__ import annotations

from typing import Any

from deployctl.cli import running
from deployctl.engine.run import plan
from deployctl.engine.run.plan import HostPlan
from deployctl.report import document, summary
from deployctl.steps.clean import CleanStep
from deployctl.steps.facts import SOURCE
from deployctl.steps.interface import Answers, Plan, Unknown
from deployctl.steps.preflight import PreflightStep
from tests.unit.engine.test_plan import CHAIN, Toy, wanted

NO_PR = Unknown("no-ref", "pull request 999999 does not exist")


def surveyed(made: HostPlan) -> list[dict[str, Any]]:
    return [{"host": made.host, "plan": made}]


def told(made: HostPlan) -> tuple[int, list[str], dict[str, Any]]:
    found = document.plan("toy", "up", surveyed(made))
    return running.of_plans(surveyed(made)), list(summary.plan_lines(found)), found


def test_seven_steps_with_one_reason_say_it_once() -> None:
    """Found: seven steps `unknown`, "nothing to change", exit 0; `up` then exits 6."""

    class Asks(Toy):
        def plan(self, wanted: Any, answers: Answers) -> Any:
            return answers[SOURCE]

    steps = [Asks(name) for name in ("build", "verify", "fetch", "drafter", "launch", "ready", "x")]
    code, lines, found = told(plan.make(steps, wanted(), Answers({"source": NO_PR})))
    assert code == 6 and found["unknown"] and not found["changes"]
    assert sum("999999" in line for line in lines) == 1
    assert [line for line in lines if line.startswith("  verify")] == [
        "  verify      unknown    for the same reason"
    ]
    assert lines[-1] == (
        "unknown: build, verify, fetch, drafter, launch, ready, x on here cannot be planned, "
        "and a run would end there"
    )


def test_what_an_earlier_step_will_make_known_is_not_unknown() -> None:
    answers = Answers({"build": False, "verify": NO_PR, "smoke": True})
    code, lines, found = told(plan.make(CHAIN, wanted(), answers))
    assert code == 0 and not found["unknown"] and lines[-1] == "there are changes"


def test_what_is_blocked_goes_before_what_is_unknown() -> None:
    class Blocked(Toy):
        failure = CleanStep.failure  # type: ignore[assignment]

        def plan(self, wanted: Any, answers: Answers) -> Any:
            return Plan("blocked", reason="no")

    steps = [Toy("build"), Blocked("clean")]
    assert told(plan.make(steps, wanted(), Answers({"build": NO_PR})))[0] == 7


def test_clean_alone_has_no_wanted_release_and_forgets_nothing() -> None:
    made = plan.make([CleanStep()], wanted(), Answers({"unit": Unknown("x", "no answer")}))
    code, lines, _ = told(made)
    assert code == 7 and lines[0] == "here  current release none"
    assert lines[-1].startswith("unknown: clean on here cannot be planned")
    assert "not known yet" in told(plan.make([PreflightStep()], wanted(), Answers({})))[1][0]
