"""What tune plans, as data: beside what serves, in its place, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.tune import TuneStep, values
from tests.hosts.step_bench import NOTHING_DEPLOYED, deployment

STEP = TuneStep()


def wanted(interrupt: bool = False, **changes: Any) -> Deployment:
    options = {"tune": {"values": [0, 3, 7], "interrupt": interrupt}}
    return replace(deployment(changes), options=options)


def answers(used: int | None = 0, serving: str = "r1", **gpu: Any) -> Answers:
    """A host that serves release r1, and one GPU with so many MiB in use."""
    releases = {**NOTHING_DEPLOYED, "current": "r1", "releases": {"r1": {}}}
    card = {"index": 0, "uuid": "GPU-0", "memory_total": 100_000, "memory_used": used, **gpu}
    state = {"present": True, "reason": None, "unknown": None, "incomplete": None, "gpus": [card]}
    unit = {"state": "running", "release": serving, "pid": 1, "start": 1}
    return Answers({"releases": releases, "unit": unit, "gpus": state, "units": {}})


ON_GPU: dict[str, Any] = {
    "build": {"source": {"release": "0.32.0"}, "target": "cuda"},
    "serve": {"port": 8000, "gpus": [0]},
}


def test_the_serving_number_comes_first() -> None:
    assert values(STEP, wanted()) == (7, 3, 0)


def test_on_a_cpu_it_runs_beside_what_serves() -> None:
    plan = STEP.plan(wanted(), answers())
    assert (plan.status, plan.changes) == ("check", ())
    assert plan.reason == "2 servers are started in turn beside what serves"


def test_in_its_place_it_says_what_is_stopped() -> None:
    plan = STEP.plan(wanted(interrupt=True), answers())
    (change,) = plan.changes
    assert plan.status == "change" and (change.old, change.new) == ("release r1", "stopped")
    assert "4 starts" in change.why and "started again at the end in any case" in change.why


@pytest.mark.parametrize(
    ("found", "status", "why"),
    [
        (answers(used=90_000), "blocked", "GPU 0 has 10000 MiB free beside what serves"),
        (answers(used=None), "blocked", "the free memory of GPU 0 is unknown"),
        (answers(used=5_000), "check", "2 servers"),
        (
            answers(used=0, unified=True, memory_available=20_000),
            "blocked",
            "GPU 0 has 20000 MiB free",
        ),
    ],
)
def test_on_gpus_the_measured_memory_decides(found: Answers, status: str, why: str) -> None:
    plan = STEP.plan(wanted(**ON_GPU), found)
    assert plan.status == status and why in plan.reason
    if status == "blocked":
        assert plan.reason.endswith("deployctl tune --interrupt")
        assert STEP.plan(wanted(interrupt=True, **ON_GPU), found).status == "change"


@pytest.mark.parametrize(
    ("of", "found", "why"),
    [
        (wanted(drafter=None, acceptance=None), answers(), "has no drafter"),
        (wanted(), answers(serving="r2"), "the current release does not run"),
        (replace(wanted(), options={"tune": {"values": [7]}}), answers(), "other than the serving"),
        (
            wanted(interrupt=True, router={"port": 9000}, serve={"port": 8000, "host": "0.0.0.0"}),
            answers(),
            "behind a router is not stopped",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(of: Deployment, found: Answers, why: str) -> None:
    plan = STEP.plan(of, found)
    assert plan.status == "blocked" and why in plan.reason
