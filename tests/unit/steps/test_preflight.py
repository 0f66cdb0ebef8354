"""preflight's plan as data: what blocks, what warns, what is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.config.profile import Profile
from deployctl.steps.gpus.fitness import CUDA, HOST
from deployctl.steps.interface import Answers, Deployment, Plan, Unknown
from deployctl.steps.preflight import DISK, GIB, PreflightStep
from tests.unit.whole import whole_answers

ABSENT = {"present": False, "reason": "no driver", "gpus": [], "unknown": None}
GPU = {
    "index": 0,
    "uuid": "GPU-0",
    "name": "NVIDIA H200",
    "minor": 0,
    "memory_used": 0,
    "persistence": True,
}
PRESENT = {"present": True, "reason": None, "gpus": [GPU], "unknown": None}
LOOK = {
    "majors": {"nvidia": 195, "nvidia-uvm": 511},
    "devices": [
        {"path": f"/dev/{name}", "kind": "device", "major": major, "minor": minor}
        for name, major, minor in (
            ("nvidia0", 195, 0),
            ("nvidiactl", 195, 255),
            ("nvidia-uvm", 511, 0),
            ("nvidia-uvm-tools", 511, 1),
        )
    ],
    "module": "580.1.2",
    "libraries": {"libcuda.so.1": "580.1.2"},
    "shm": 8 * GIB,
    "conf": None,
}
NO_TOOLS: dict[str, object] = {"uv": None, "git": None, "pythons": {}}
PASSES: dict[str, object] = {
    "unknown": None,
    "opened": {},
    "count": 1,
    "version": 13000,
    "error": None,
}


def wanted(target: str = "cpu", **source: Any) -> Deployment:
    profile = Profile.model_validate(
        {
            "name": "toy",
            "hosts": [{"name": "here", "local": True}],
            "model": {"path": "/m", "served_name": "toy"},
            "build": {"source": source or {"release": "0.33.0"}, "target": target},
            "serve": {"port": 8123},
        }
    )
    return Deployment(profile, profile.hosts[0])


def plan(deployment: Deployment, **changes: Any) -> Plan:
    answers: dict[str, Any] = {
        DISK: {"free": 100 * GIB},
        "tools": {
            **{name: f"/bin/{name}" for name in ("uv", "git", "cc", "g++")},
            "memory_available": 64 * GIB,
            "libraries": LIBRARIES,
        },
        "port": {"listening": False, "holders": []},
        "unit": {"state": "absent", "members": []},
        "releases": {"environments": {}, "broken": {}},
        "gpus": ABSENT if deployment.profile.build.target == "cpu" else PRESENT,
        HOST: LOOK,
        CUDA: PASSES,
    }
    answers.update({key.replace("_", "."): value for key, value in changes.items()})
    return PreflightStep().plan(deployment, Answers(whole_answers(answers)))


def verdicts(made: Plan) -> dict[str, str]:
    return {check["check"]: check["verdict"] for check in made.evidence["checks"]}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_host_that_has_everything(target: str) -> None:
    made = plan(wanted(target))
    assert made.status == "unchanged" and set(verdicts(made).values()) == {"ok"}


def test_every_check_has_measured_needed_and_verdict() -> None:
    for check in plan(wanted("cuda")).evidence["checks"]:
        assert {"check", "verdict", "measured", "needed", "say"} <= check.keys()


@pytest.mark.parametrize(
    ("free", "status", "verdict"),
    [(4 * GIB, "unchanged", "warning"), (GIB, "blocked", "failed"), (5 * GIB, "unchanged", "ok")],
)
def test_disk(free: int, status: str, verdict: str) -> None:
    made = plan(wanted(), preflight_disk={"free": free})
    assert (made.status, verdicts(made)["disk"]) == (status, verdict)


def test_memory_that_our_own_unit_holds_will_be_free() -> None:
    tools = {**NO_TOOLS, "memory_available": GIB // 2}
    assert plan(wanted(), tools=tools).status == "blocked"
    unit = {"state": "running", "members": [{"pid": 7, "start": 70}]}
    assert verdicts(plan(wanted(), tools=tools, unit=unit))["memory"] == "warning"


COMMAND = "python -m http.server"
HOLDER = {"pid": 7, "start": 70, "parent": 1, "comm": "python", "command": COMMAND}


def test_a_port_is_ours_or_its_holder_is_named() -> None:
    port = {"listening": True, "holders": [HOLDER], "unknown": None}
    made = plan(wanted(), port=port)
    assert made.status == "blocked"
    assert made.reason == (
        "port 8123 is held by PID 7 (python -m http.server); stop it or choose another serve.port"
    )
    unit = {"state": "running", "members": [{"pid": 7, "start": 70}]}
    assert plan(wanted(), port=port, unit=unit).status == "unchanged"
    both = {**port, "holders": [HOLDER, {**HOLDER, "pid": 8, "parent": 7}]}
    assert plan(wanted(), port=both, unit=unit).status == "unchanged", "a child of a moment ago"
    nobody = {"listening": True, "holders": [], "unknown": "tables of 3 processes"}
    assert "no visible process: tables of 3 processes" in plan(wanted(), port=nobody).reason


def test_a_port_that_an_outgoing_connection_may_hold_at_a_start() -> None:
    port = {"listening": False, "holders": [], "outgoing": [8000, 60999]}
    made = plan(wanted(), port=port)
    (found,) = [check for check in made.evidence["checks"] if check["check"] == "port"]
    assert (made.status, found["verdict"]) == ("unchanged", "warning")
    assert "as any from 8000 to 60999" in found["say"]
    assert found["lines"] == ["net.ipv4.ip_local_reserved_ports = 8123"]


def test_a_repository_needs_git_and_a_release_does_not() -> None:
    tools = {**NO_TOOLS, "memory_available": 64 * GIB}
    assert plan(wanted(), tools=tools).status == "unchanged"
    made = plan(wanted(ref="main"), tools=tools)
    assert made.status == "blocked" and "git is missing" in made.reason


def test_without_a_gpu_only_a_build_for_one_is_blocked() -> None:
    assert plan(wanted(), gpus=ABSENT).status == "unchanged"
    made = plan(wanted("cuda"), gpus=ABSENT)
    assert made.status == "blocked"
    assert "no GPU, and build.target is cuda (absent: no driver)" in made.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": Unknown("time", "nvidia-smi hangs")},
        {"gpus": {**PRESENT, "unknown": "nvidia-smi hangs"}},
        {"preflight_cuda": {"unknown": "nvidia-smi hangs"}},
        {"preflight_cuda": Unknown("time", "nvidia-smi hangs")},
        {"port": Unknown("time", "nvidia-smi hangs")},
        {"tools": Unknown("time", "nvidia-smi hangs")},
    ],
)
def test_what_is_not_known_is_never_ok(changes: dict[str, Any]) -> None:
    made = plan(wanted("cuda"), **changes)
    assert made.status == "unknown" and "nvidia-smi hangs" in made.reason


def test_what_fails_is_told_before_what_is_unknown() -> None:
    broken = {**PASSES, "error": {"call": "cuInit", "code": 999, "name": "CUDA_ERROR_UNKNOWN"}}
    made = plan(wanted("cuda"), preflight_cuda=broken, port=Unknown("x", "untold"))
    assert made.status == "blocked" and "cuInit: CUDA_ERROR_UNKNOWN" in made.reason


def on_gpus(indices: list[int]) -> Deployment:
    deployment = wanted("cuda")
    serve = deployment.profile.serve.model_copy(update={"gpus": indices})
    profile = deployment.profile.model_copy(update={"serve": serve})
    return Deployment(profile, profile.hosts[0])


def test_a_gpu_that_the_profile_names_must_be_there() -> None:
    made = plan(on_gpus([3]))
    assert made.status == "blocked"
    assert "serve.gpus names GPU 3, the host has 1" in made.reason


LIBRARIES = {"libnuma.so.1": True, "libgomp.so.1": True}


@pytest.mark.parametrize(
    ("there", "source", "verdict"),
    [
        (True, {"release": "0.33.0"}, "ok"),
        (False, {"release": "0.33.0"}, "failed"),
        (False, {"url": "https://example.org/vllm", "ref": "main"}, "warning"),
        (None, {"release": "0.33.0"}, "warning"),
    ],
)
def test_libnuma_of_the_cpu_build(there: bool | None, source: Any, verdict: str) -> None:
    tools = {**NO_TOOLS, "git": "/bin/git", "memory_available": 64 * GIB}
    made = plan(
        wanted(**source), tools={**tools, "libraries": {**LIBRARIES, "libnuma.so.1": there}}
    )
    assert verdicts(made)["libraries"] == verdict
    if verdict == "failed":
        assert made.status == "blocked"
        assert "install libnuma1 (Debian, Ubuntu), numactl-libs (Fedora)" in made.reason


@pytest.mark.parametrize(
    ("target", "tools", "verdict"),
    [
        ("cpu", {"g++": None}, "warning"),
        ("cpu", {"g++": "/bin/g++"}, "ok"),
        ("cuda", {"cc": None, "gcc": None, "clang": None, "g++": "/bin/g++"}, "warning"),
        ("cuda", {"cc": None, "gcc": None, "clang": "/bin/clang"}, "ok"),
    ],
)
def test_a_compiler_for_what_is_compiled_at_a_start(
    target: str, tools: dict[str, Any], verdict: str
) -> None:
    given = {**NO_TOOLS, "memory_available": 64 * GIB, "libraries": LIBRARIES, **tools}
    made = plan(wanted(target), tools=given)
    assert verdicts(made)["compiler"] == verdict
    assert made.status == "unchanged"


def test_no_compiler_is_needed_by_a_cpu_that_runs_eagerly() -> None:
    deployment = wanted()
    deployment.profile.serve.args["enforce-eager"] = True
    assert "compiler" not in verdicts(plan(deployment))


def test_what_is_not_known_of_other_gpus_does_not_matter() -> None:
    lost = "Unable to determine the device handle for GPU1"
    remark = "WARNING: infoROM is corrupted at gpu 0000:00:06.0"
    gpu = {**GPU, "remarks": [remark], "unknown": {"persistence_mode": "[N/A]"}}
    answer = {**PRESENT, "gpus": [gpu], "incomplete": lost}
    made = plan(on_gpus([0]), gpus=answer)
    assert made.status == "unchanged", made.reason
    said = [c["say"] for c in made.evidence["checks"] if c["verdict"] == "warning"]
    assert f"GPU 0: {remark}" in said
    assert "GPU 0: nvidia-smi says persistence_mode is '[N/A]'" in said
    made = plan(on_gpus([1]), gpus=answer)
    assert (
        made.status == "unknown" and f"GPU 1 of the host, not all are known: {lost}" in made.reason
    )


def judged(backend: str, strategy: str = "auto", nvcc: str | None = None, **gpu: Any) -> Plan:
    deployment = wanted("cuda", ref="main")
    build = deployment.profile.build.model_copy(
        update={"torch_backend": backend, "strategy": strategy}
    )
    profile = deployment.profile.model_copy(update={"build": build})
    row = {**GPU, "driver": "580.1.2", "compute_cap": "9.0", **gpu}
    tools = {"uv": "/bin/uv", "git": "/bin/git", "memory_available": 64 * GIB, "pythons": {}}
    tools["nvcc_version"] = nvcc
    return plan(Deployment(profile, profile.hosts[0]), gpus={**PRESENT, "gpus": [row]}, tools=tools)


def test_a_backend_that_the_host_can_run() -> None:
    made = judged("cu128", nvcc="12.8")
    assert made.status == "unchanged" and verdicts(made)["backend driver"] == "ok"
    assert verdicts(made)["driver of GPU 0"] == "ok"


def test_a_gpu_that_the_wheels_do_not_have_is_told_before_the_build() -> None:
    made = judged("cu126", compute_cap="12.0")
    assert made.status == "blocked" and "no code for compute capability 12.0" in made.reason


def test_a_driver_that_differs_from_the_module_is_told() -> None:
    made = judged("cu128", driver="580.9.9")
    assert made.status == "blocked" and "driver 580.9.9 for GPU 0" in made.reason


@pytest.mark.parametrize(("strategy", "verdict"), [("source", "failed"), ("auto", "warning")])
def test_a_toolkit_of_another_major_version(strategy: str, verdict: str) -> None:
    assert verdicts(judged("cu130", strategy, nvcc="12.8"))["backend toolkit"] == verdict
