"""Whether what serves can sleep while its successor is started, from what was measured."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deployctl.agent.wire.answers import Sleeper
from deployctl.steps.gpus import clearing
from deployctl.steps.gpus.settling import settled
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.sleeping import GIB, NEED, obstacles, sentence
from tests.unit.steps.test_clean_plan import answers, gpus, look, plan, process, seen, wanted

SERVES = process(70, comm="VLLM::EngineCor", devices=["nvidia2"], marks=[])
TOTAL = 143771


def sleeper(**changes: Any) -> Sleeper:
    made: Sleeper = {"able": True, "asleep": False, "weights": 60 * GIB, "memory": 200 * GIB}
    return {**made, **changes}  # type: ignore[typeddict-item]


def on_gpu(used: int = 130000, total: int = TOTAL) -> dict[str, Any]:
    state = gpus((70, 2, used))
    state["gpus"][2] |= {"memory_used": used, "memory_total": total}
    return {"holders": look(SERVES), "gpus": state}


def resting(utilization: float | None = None) -> Deployment:
    made = replace(wanted(stop_unit=False), resting=frozenset({(70, 700)}))
    serve = made.profile.serve.model_copy(update={"gpu_memory_utilization": utilization})
    return replace(made, profile=made.profile.model_copy(update={"serve": serve}))


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (sleeper(), ""),
        (sleeper(able=False), "started without sleep mode"),
        (sleeper(weights=None), "not known"),
        (sleeper(memory=60 * GIB + NEED - 1), "64.0 GiB of host memory are available"),
        (sleeper(memory=60 * GIB + NEED), ""),
    ],
)
def test_host_memory_must_hold_the_weights(now: Sleeper, says: str) -> None:
    found = list(obstacles(now, resting(), answers(**on_gpu())))
    assert bool(found) == bool(says) and all(says in one for one in found)


def test_gpu_memory_must_hold_what_sleeps_beside_the_next_server() -> None:
    fits = (TOTAL - clearing.ASLEEP) / TOTAL
    assert not list(obstacles(sleeper(), resting(fits - 0.001), answers(**on_gpu())))
    (said,) = obstacles(sleeper(), resting(fits + 0.001), answers(**on_gpu()))
    assert "asleep, it keeps about 2048 MiB of GPU 2" in said


def test_what_will_sleep_stands_in_no_way() -> None:
    assert plan(resting(), **on_gpu()).status == "check"
    awake = replace(resting(), resting=frozenset())
    blocked = plan(awake, **on_gpu())
    assert blocked.status == "blocked" and "130000 MiB stay held" in blocked.reason


def test_memory_that_a_look_shows_free_is_not_measured_again() -> None:
    made = resting(0.9)
    context: Any = SimpleNamespace(wanted=made)
    for used, followed in ((811, False), (130000, True)):
        now = seen(made, **on_gpu(used=used))
        if followed:
            with pytest.raises(AttributeError, match="node"):
                settled(context, now, {"GPU-c": "2"})
        else:
            found = settled(context, now, {"GPU-c": "2"})
            assert found["free"] and found["memory"] == {"GPU-c": used}


def test_the_next_server_needs_its_share_free_and_no_more() -> None:
    now = seen(resting(0.9), **on_gpu(used=811))
    assert clearing.room(resting(0.9), now) == int(TOTAL - TOTAL * 0.9)


@pytest.mark.parametrize(
    ("step", "evidence", "says"),
    [
        ("sleep", {"unit": "blue", "asleep": True, "seconds": 0.07}, "blue asleep after 0.07 s"),
        (
            "sleep",
            {"unit": "blue", "asleep": False, "stopped_requests": {"cut_off": 2}},
            "blue stopped, 2 requests cut off",
        ),
        (
            "restore-wake",
            {"unit": "blue", "awake_after": 0.05, "why": "smoke: failed"},
            "blue awake after 0.05 s: smoke: failed",
        ),
        ("switch", {}, ""),
    ],
)
def test_what_became_of_what_served_in_words(
    step: str, evidence: dict[str, Any], says: str
) -> None:
    assert sentence({"step": step, "evidence": evidence}) == says
