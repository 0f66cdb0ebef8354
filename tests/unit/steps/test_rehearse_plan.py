"""What rehearse plans, as data: answers in, plan out."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.steps.builds.built import sealed_knowledge
from deployctl.steps.builds.environments import environment_key
from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.launch import LaunchStep
from deployctl.steps.rehearse import RehearseStep, _remarks, circumstances
from deployctl.steps.release import release_paths
from tests.hosts.step_bench import NOTHING_DEPLOYED, deployment
from tests.unit.steps.test_clean_plan import gpus, look, process
from tests.unit.steps.test_launch_plan import unit
from tests.unit.whole import whole_answers

SHM = {"free": 1 << 33, "path": "/dev/shm"}


def answers(wanted: Deployment, **values: Any) -> Answers:
    given = {
        "releases": NOTHING_DEPLOYED,
        "launch.shm": SHM,
        "unit": unit("absent"),
        "rehearsed": {},
        **values,
    }
    return Answers(whole_answers(given))


def told(wanted: Deployment, outcome: str, **more: Any) -> dict[str, Any]:
    """What a rehearsal of the wanted release has left on the host."""
    known = answers(wanted)
    release = release_paths(wanted, known).release
    digest = circumstances(wanted, known, sealed_knowledge(wanted, known))
    return {release: {"outcome": outcome, "circumstances": digest, **more}}


def plan(wanted: Deployment, **values: Any) -> Any:
    return RehearseStep().plan(wanted, answers(wanted, **values))


def test_a_start_that_was_never_rehearsed_is() -> None:
    found = plan(deployment())
    assert (found.status, found.reason) == ("check", "not rehearsed yet")


def test_what_vllm_accepted_is_shown_with_what_it_made_of_it() -> None:
    wanted = deployment()
    resolved = {"max_model_len": 1024}
    found = plan(wanted, rehearsed=told(wanted, "accepted", resolved=resolved))
    assert found.status == "unchanged" and found.evidence["resolved"] == resolved


def test_what_vllm_refused_is_refused_in_its_words_until_something_changes() -> None:
    wanted = deployment()
    refusal = {"error": "ValueError", "words": "heads do not divide"}
    found = plan(wanted, rehearsed=told(wanted, "refused", **refusal))
    assert found.status == "blocked"
    assert found.reason.startswith("vLLM refused this start: heads do not divide")
    assert "deployctl rehearse --profile toy" in found.reason
    card = {"name": "another", "driver": "580.1", "index": 0}
    state = {"present": True, "gpus": [card], "apps": [], "unknown": None}
    again = plan(wanted, rehearsed=told(wanted, "refused", **refusal), gpus=state)
    assert (again.status, again.reason) == ("check", "rehearsed under other circumstances")


@pytest.mark.parametrize(
    ("outcome", "error"), [("unknown", None), ("refused", "ConnectionError"), ("ended", None)]
)
def test_what_may_end_otherwise_is_rehearsed_again(outcome: str, error: str | None) -> None:
    wanted = deployment()
    assert plan(wanted, rehearsed=told(wanted, outcome, error=error)).status == "check"


def test_a_refusal_is_asked_again_where_that_is_wanted() -> None:
    wanted = deployment(options={"rehearse": {"always": True}})
    found = plan(wanted, rehearsed=told(wanted, "refused", error="ValueError"))
    assert (found.status, found.reason) == ("check", "asked for")


def test_what_runs_needs_no_rehearsal() -> None:
    wanted = deployment()
    release = release_paths(wanted, answers(wanted)).release
    assert plan(wanted, unit=unit("running", release)).status == "unchanged"


# -- what stays ours: memory that somebody keeps, backends of a build without a version -----------


def on_gpu(utilization: float, **build: Any) -> Deployment:
    source = build or {"source": {"release": "0.20.1"}}
    serve = {"gpus": [0], "gpu_memory_utilization": utilization}
    return deployment({"build": {"target": "cuda", **source}, "serve": serve})


def cards(total: int, *apps: tuple[int, int, int | None]) -> dict[str, Any]:
    state = gpus(*apps)
    for card in state["gpus"]:
        card["memory_total"] = total
    return state


H200 = 143771
SPARED = look(process(700, comm="python3", command=["python3", "hold.py"], devices=["nvidia0"]))


def test_memory_that_a_spared_holder_keeps_is_counted_against_the_share() -> None:
    """Found on an H200: 0.999 with 683 MiB of somebody else's, 60 s without service."""
    found = plan(on_gpu(0.999), gpus=cards(H200, (700, 0, 683)), holders=SPARED)
    assert found.status == "blocked"
    assert "GPU 0: 683 MiB stay held by PID 700 'python3 hold.py' (foreign" in found.reason
    assert "vLLM wants 0.999 of 143771 MiB and at most 143088 MiB can be free" in found.reason
    assert "set serve.gpu_memory_utilization to 0.98 or less" in found.reason


@pytest.mark.parametrize(
    ("utilization", "held", "blocked"),
    [(0.3, 683, False), (0.995, 683, False), (0.996, 683, True), (0.999, None, False)],
)
def test_only_what_is_sure_to_be_too_much_is_refused(
    utilization: float, held: int | None, blocked: bool
) -> None:
    found = plan(on_gpu(utilization), gpus=cards(H200, (700, 0, held)), holders=SPARED)
    assert (found.status == "blocked") is blocked


def test_a_patched_release_is_refused_what_its_version_cannot_do() -> None:
    """Found on an H200: FLASHINFER for a patched 0.20.1 was planned, 61 s without service."""
    patched = {"ref": "dflash-fixes", "url": "/srv/vllm.git"}
    wanted = deployment(
        {
            "build": {"target": "cuda", "source": patched, "strategy": "patch"},
            "serve": {"gpus": [0], "attention_backend": "FLASHINFER"},
        }
    )
    known = {
        "source": {"identity": "c0ffee", "commit": "c0ffee"},
        "tools": {"capabilities": ["9.0"]},
        "gpus": cards(H200),
        "holders": look(),
    }
    key = environment_key(wanted, answers(wanted, **known))
    build = {"strategy": "patch", "version_installed": "0.20.1"}
    seal = {"evidence": {"build": build, "verify": {"fixes": []}}}
    known["releases"] = {**NOTHING_DEPLOYED, "environments": {key: seal}}
    for step in (RehearseStep(), LaunchStep()):
        found = step.plan(wanted, answers(wanted, **known))
        assert found.status == "blocked"
        assert "attention backend FLASHINFER cannot do DFlash's non-causal" in found.reason


@pytest.mark.parametrize(
    ("available", "unified", "ours", "blocked"),
    [
        (30_000, True, False, True),
        (121_000, True, False, False),
        (None, True, False, False),
        (30_000, False, False, False),
        # What ours frees when it stops is not only what the GPU's driver counts.
        (30_000, True, True, False),
    ],
)
def test_a_gpu_that_shares_the_machines_memory_has_what_is_available(
    available: int | None, unified: bool, ours: bool, blocked: bool
) -> None:
    """vLLM compares its share with /proc/meminfo's MemAvailable there."""
    state = cards(122_595)
    state["gpus"][0] |= {"unified": unified, "memory_available": available}
    held = process(700, comm="vllm", command=["vllm"], devices=["nvidia0"])
    known: dict[str, Any] = {"holders": look(held) if ours else look()}
    if ours:
        known["unit"] = {**unit("running", "r0"), "members": [{"pid": 700, "start": 7000}]}
    found = plan(on_gpu(0.9), gpus=state, **known)
    assert (found.status == "blocked") is blocked, found.reason
    if blocked:
        assert "GPU 0 shares the machine's memory, of which 30000 MiB are available" in found.reason


# -- what a rehearsal did to the GPU ---------------------------------------------------------------


def test_whether_cuda_was_initialised_is_reported() -> None:
    made = {"device": "cuda", "max_model_len": 1024}
    told = {"outcome": "accepted", "resolved": made, "cuda": False}
    sentence = RehearseStep().sentence({"evidence": told})
    assert sentence == "vLLM accepts the start: context 1024, PyTorch did not initialise CUDA"
    assert not _remarks(told)
    for devices, opened in ((["/dev/nvidia-uvm"], "/dev/nvidia-uvm"), ([], "no device file")):
        (remark,) = _remarks({**told, "cuda": True, "devices": devices})
        assert remark["verdict"] == "warning" and opened in remark["say"]
    cpu = {**told, "resolved": {"device": "cpu", "max_model_len": 1024}}
    assert "CUDA" not in RehearseStep().sentence({"evidence": cpu})
