"""A start that must fail is refused in staging, in vLLM's own words, and nothing is interrupted."""

from __future__ import annotations

from typing import Any

from deployctl.config.loader import load_playbook
from deployctl.engine.ledger.record import RunRecord, StepRecord
from deployctl.engine.run.coordinator import survey
from deployctl.engine.run.options import Options
from deployctl.steps import registry
from tests.hosts.served.host import ServedHost


def step(record: RunRecord, name: str) -> StepRecord:
    return next(s for s in record.hosts[0].steps if s.step == name)


def planned(served: ServedHost, *sets: str) -> dict[str, Any]:
    playbook = load_playbook("up", registry.options())
    plan = survey(served.profile(*sets), playbook, Options())[0]["plan"]
    return {p.step.name: p.plan for p in plan.steps}


def test_a_refused_start_interrupts_nothing_and_a_plan_knows_of_it(served: ServedHost) -> None:
    first = served.up()
    assert first.exit_code == 0
    rehearsed = step(first, "rehearse")
    assert rehearsed.status == "passed" and rehearsed.evidence["outcome"] == "accepted"
    release = first.hosts[0].release
    manifest = served.releases()["releases"][release]
    assert manifest["resolved"]["max_model_len"] == 1024
    pid = served.unit()["pid"]

    wrong = "serve.args={no-such-option: true}"
    failed = served.up(wrong)
    assert failed.exit_code == 6
    error = failed.hosts[0].error
    assert error is not None
    assert "vLLM refuses this start: unrecognized arguments: --no-such-option" in error.what
    assert failed.hosts[0].without_service is None and served.unit()["pid"] == pid
    assert served.releases()["current"] == release

    plans = planned(served, wrong)
    assert plans["rehearse"].status == "blocked"
    assert "unrecognized arguments: --no-such-option" in plans["rehearse"].reason
    assert planned(served)["rehearse"].status == "unchanged"
