"""What launch and ready plan, as data: answers in, plan out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployctl.steps.interface import Answers, Deployment, Unknown
from deployctl.steps.launch import LaunchStep
from deployctl.steps.ready import ReadyStep
from deployctl.steps.release import release_paths
from deployctl.steps.servers.stopping import reachable
from tests.hosts.step_bench import NOTHING_DEPLOYED, deployment

MEMBER = {"pid": 10, "start": 99}
OTHER = {"pid": 77, "start": 5, "parent": 1, "command": "nginx", "started": 1.0}
MODELS = json.dumps({"data": [{"id": "tiny"}]})


def unit(state: str, release: str | None = None, **more: Any) -> dict[str, Any]:
    running = state in ("running", "starting")
    base: dict[str, object] = {"pid": 10, "start": 99, "started": 1.0, "restarts": 0}
    base |= {"rc": None, "argv": []}
    flags = {"supervised": running, "kept": running, "members": [MEMBER] if running else []}
    flags["proven"] = MEMBER if running else None
    return {"state": state, "release": release, **base, **flags, **more}


COMPLETED: dict[str, Any] = {"status": 200, "body": '{"choices": [{"text": "2"}]}', "error": None}


def answers(wanted: Deployment, **values: Any) -> Answers:
    return Answers(
        {"releases": NOTHING_DEPLOYED, "launch.shm": {"free": 1 << 33, "path": "x"}, **values}
    )


def wanted_release(wanted: Deployment) -> str:
    return release_paths(wanted, answers(wanted)).release


@pytest.mark.parametrize(
    ("state", "same", "more", "status", "why"),
    [
        ("absent", False, {}, "change", "absent"),
        ("stopped", True, {}, "change", "stopped"),
        ("failed", True, {}, "change", "failed"),
        ("lost", True, {}, "change", "lost"),
        ("running", False, {}, "change", ""),
        ("running", True, {}, "unchanged", ""),
        ("starting", True, {}, "unchanged", ""),
        ("running", True, {"supervised": False}, "change", "it is not supervised"),
    ],
)
def test_launch(state: str, same: bool, more: dict[str, Any], status: str, why: str) -> None:
    wanted = deployment()
    release = wanted_release(wanted) if same else "another"
    plan = LaunchStep().plan(wanted, answers(wanted, unit=unit(state, release, **more)))
    assert plan.status == status
    if status == "change":
        assert plan.changes[0].why == why
        assert plan.changes[0].new == wanted_release(wanted)


SLIDING = {"layer_types": ["sliding_attention"] * 4 + ["full_attention"], "sliding_window": 64}
H200 = {"present": True, "gpus": [{"index": 0, "memory_total": 143_771}]}
SMALL = {"present": True, "gpus": [{"index": 0, "memory_total": 2_000}]}
BIG = {"exists": True, "files": {"model.safetensors": 54 << 30}, "place": "/m"}
CUDA = {"source": {"release": "0.20.1"}, "target": "cuda"}


@pytest.mark.parametrize(
    ("changes", "values", "reason"),
    [
        (
            {"build": CUDA, "serve": {"attention_backend": "flashinfer"}},
            {},
            "FLASHINFER cannot do DFlash's non-causal attention",
        ),
        ({"build": CUDA, "serve": {"kv_cache_dtype": "fp8"}}, {}, "cannot use an fp8 KV cache"),
        (
            {
                "build": {"source": {"release": "0.20.1"}},
                "drafter": {
                    "method": "dflash",
                    "model": {"bundled": "tiny-dflash-full"},
                    "num_speculative_tokens": 7,
                    "speculative": {"disable_eagle_block_drop": True},
                },
            },
            {},
            "knows no key disable_eagle_block_drop",
        ),
        (
            {
                "serve": {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
                "drafter": {
                    "method": "dflash",
                    "model": {"bundled": "tiny-dflash-full"},
                    "num_speculative_tokens": 7,
                    "config": {**SLIDING, "use_sliding_window": True},
                },
            },
            {},
            "VLLM_USE_V2_MODEL_RUNNER=0",
        ),
        (
            {"build": {"target": "cuda"}},
            {"gpus": SMALL, "model": BIG, "drafter": BIG},
            "vLLM may use 1800 MiB",
        ),
        (
            {"build": {"target": "cuda"}, "serve": {"gpus": [0, 1], "tensor_parallel_size": 2}},
            {"gpus": H200},
            "2 GPUs are wanted, 1 of those named are there",
        ),
        (
            {"serve": {"tensor_parallel_size": 2}},
            {"launch.shm": {"free": 64 << 20, "path": "/dev/shm"}},
            "/dev/shm has 64 MiB free",
        ),
    ],
)
def test_launch_refuses_what_is_known_to_fail(
    changes: dict[str, Any], values: dict[str, Any], reason: str
) -> None:
    wanted = deployment(changes)
    plan = LaunchStep().plan(wanted, answers(wanted, unit=unit("absent"), **values))
    assert plan.status == "blocked" and reason in plan.reason


def test_launch_claims_nothing_where_nothing_is_known() -> None:
    wanted = deployment({"build": {"target": "cuda"}})
    unknown = Unknown("failed", "nvidia-smi hangs")
    for values in ({"gpus": unknown}, {"gpus": H200}, {"gpus": SMALL, "model": unknown}):
        plan = LaunchStep().plan(wanted, answers(wanted, unit=unit("absent"), **values))
        assert plan.status == "change", plan.reason


@pytest.mark.parametrize(
    ("state", "same", "more", "holders", "health", "status"),
    [
        ("absent", False, {}, [], (None, ""), "change"),
        ("running", False, {}, [MEMBER], (200, MODELS), "change"),
        ("running", True, {}, [MEMBER], (200, MODELS), "unchanged"),
        ("running", True, {"kept": False}, [MEMBER], (200, MODELS), "check"),
        ("running", True, {"proven": {"pid": 9, "start": 98}}, [MEMBER], (200, MODELS), "check"),
        ("running", True, {"proven": None}, [MEMBER], (200, MODELS), "check"),
        ("running", True, {}, [], (None, ""), "check"),
        ("running", True, {}, [OTHER], (200, MODELS), "check"),
        ("running", True, {}, [MEMBER], (503, ""), "check"),
        ("running", True, {}, [MEMBER], (401, ""), "check"),
        ("running", True, {}, [MEMBER], (200, "<html>"), "check"),
        ("running", True, {}, [MEMBER], (200, '{"data": [{"id": "other"}]}'), "check"),
    ],
)
def test_ready(
    state: str,
    same: bool,
    more: dict[str, Any],
    holders: list[dict[str, Any]],
    health: tuple[int | None, str],
    status: str,
) -> None:
    wanted = deployment()
    release = wanted_release(wanted) if same else "another"
    found = answers(
        wanted,
        unit=unit(state, release, **more),
        port={"port": 8123, "listening": bool(holders), "holders": holders, "unknown": None},
        health={"status": health[0], "body": health[1], "error": None, "seconds": 0.0},
        life=COMPLETED,
    )
    assert ReadyStep().plan(wanted, found).status == status


@pytest.mark.parametrize(
    ("life", "status", "reason"),
    [
        ({}, "unchanged", ""),
        ({"status": None, "body": "", "error": "late"}, "check", "it does not generate"),
        ({"status": 404, "body": ""}, "check", "whether it generates is unknown"),
        # It is alive, and does not let us ask.
        ({"status": 429, "body": ""}, "unchanged", "whether it generates is unknown"),
        ({"body": '{"error": {"message": "x", "code": 429}}'}, "unchanged", "x"),
        (None, "check", "whether it generates is unknown"),
    ],
)
def test_ready_takes_nobodys_word_for_a_completion(
    life: dict[str, Any] | None, status: str, reason: str
) -> None:
    wanted = deployment()
    found = answers(
        wanted,
        unit=unit("running", wanted_release(wanted)),
        port={"port": 8123, "listening": True, "holders": [MEMBER], "unknown": None},
        health={"status": 200, "body": '{"data": [{"id": "tiny"}]}', "error": None},
        **({} if life is None else {"life": {**COMPLETED, **life}}),
    )
    plan = ReadyStep().plan(wanted, found)
    assert plan.status == status and reason in plan.reason


def test_with_an_api_key_401_is_a_sign_of_life() -> None:
    wanted = deployment({"serve": {"api_key": {"env": "KEY"}}})
    found = answers(
        wanted,
        unit=unit("running", wanted_release(wanted)),
        port={"port": 8123, "listening": True, "holders": [MEMBER], "unknown": None},
        health={"status": 401, "body": "", "error": None, "seconds": 0.0},
        life={"status": 401, "body": "", "error": None},
    )
    assert ReadyStep().plan(wanted, found).status == "unchanged"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("::1", "[::1]"),
        ("gpu.example", "gpu.example"),
    ],
)
def test_where_a_server_is_reached_from_its_host(host: str, address: str) -> None:
    assert reachable(host) == address
