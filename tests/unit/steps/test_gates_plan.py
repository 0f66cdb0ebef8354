"""What the gates plan, as data: when an earlier verdict still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.interface import Answers, Deployment, Unknown
from deployctl.steps.measuring.gates import asked_digest
from deployctl.steps.release import release_paths
from deployctl.steps.smoke import SmokeStep
from tests.hosts.step_bench import NOTHING_DEPLOYED, deployment

RUNNING = {"pid": 10, "start": 99}


def wanted(**changes: Any) -> Deployment:
    return deployment({"acceptance": {"min_length": 6}, **changes})


def answers(
    of: Deployment,
    verdict: str = "pass",
    asked: str | None = None,
    state: str = "running",
    ledger: list[dict[str, Any]] | None = None,
    process: dict[str, int] | None = RUNNING,
) -> Answers:
    """A host on which the wanted release runs, with what its manifest says of the gates."""
    release = release_paths(of, Answers({"releases": NOTHING_DEPLOYED})).release
    profile = of.profile
    evidence = {
        gate: {"verdict": verdict, "asked": asked or asked_digest(settings), "process": process}
        for gate, settings in (("smoke", profile.smoke), ("acceptance", profile.acceptance))
    }
    releases = {
        **NOTHING_DEPLOYED,
        "current": release,
        "releases": {release: {"evidence": evidence}},
        "ledger": ledger or [],
    }
    unit = {"state": state, "release": release, **RUNNING}
    return Answers({"releases": releases, "unit": unit})


@pytest.mark.parametrize("step", [SmokeStep(), AcceptanceStep()], ids=lambda step: step.name)
class TestBothGates:
    def test_passed_before_and_still_serving(self, step: Any) -> None:
        plan = step.plan(wanted(), answers(wanted()))
        assert plan.status == "unchanged"
        assert plan.evidence["verdict"] == "pass"

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"verdict": "fail"}, "has not passed"),
            ({"verdict": "unknown"}, "has not passed"),
            ({"asked": "something else"}, "changed"),
            ({"state": "failed"}, "does not run"),
            ({"process": {"pid": 10, "start": 98}}, "did not run"),
            ({"process": None}, "did not run"),
        ],
    )
    def test_checked_again(self, step: Any, given: dict[str, Any], why: str) -> None:
        plan = step.plan(wanted(), answers(wanted(), **given))
        assert plan.status == "check"
        assert why in plan.reason

    def test_checked_where_asked_for(self, step: Any) -> None:
        asking = replace(wanted(), check_gates=True)
        assert step.plan(asking, answers(asking)).status == "check"

    def test_checked_where_an_answer_is_missing(self, step: Any) -> None:
        found = Answers({"releases": Unknown("damaged", "not JSON"), "unit": {}})
        assert step.plan(wanted(), found).status == "check"


def test_a_later_verdict_in_the_ledger_weighs_more_than_the_manifest() -> None:
    of = wanted()
    release = release_paths(of, Answers({"releases": NOTHING_DEPLOYED})).release
    asked = asked_digest(of.profile.acceptance)
    said = {"acceptance": {"verdict": "fail", "asked": asked}}
    found = answers(of, ledger=[{"release": release, "verdicts": said}])
    plan = AcceptanceStep().plan(of, found)
    assert (plan.status, "fail" in plan.reason) == ("check", True)


def test_no_acceptance_is_asked_for() -> None:
    plan = AcceptanceStep().plan(wanted(acceptance=None), Answers({}))
    assert (plan.status, plan.evidence) == ("unchanged", {})
