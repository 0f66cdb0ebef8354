"""GPUs that share the machine's memory, through whole cleanings: GB10 tells what each process has,
Thor tells nothing (both as nvidia-smi was seen to write them)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hosts.gpu.machine import SERVER, TRAINING, GpuMachine
from tests.hosts.gpu.test_clean import clean, plan, profile

pytestmark = pytest.mark.lab

GB10: dict[str, Any] = {
    "name": "NVIDIA GB10",
    "odd": {
        "memory.total": "[N/A]",
        "memory.used": "[N/A]",
        "mig.mode.current": "[N/A]",
        "compute_cap": "12.1",
    },
}
NOTHING = "Not Supported"
THOR: dict[str, Any] = {
    "name": "NVIDIA Thor",
    "odd": {"memory.total": NOTHING, "memory.used": NOTHING, "compute_cap": "11.0"},
    "app_memory": "[N/A]",
}


def machine_mib(gpus: GpuMachine) -> int:
    words = gpus.node.run("grep", "MemTotal", "/proc/meminfo").stdout.split()
    return int(words[1]) // 1024


def test_a_gb10_is_cleaned_and_gated_by_what_its_processes_have(gpus: GpuMachine) -> None:
    gpus.set_gpus(GB10)
    ours = gpus.hold(gpus.ours, "VLLM::EngineCore", memory=43000)
    drawing = gpus.hold(gpus.node, "gnome-shell", memory=200, draws=True)
    with gpus.agent() as agent:
        (gpu, _) = agent.call("gpu.state")["gpus"]
    assert gpu["unified"] and gpu["memory_used"] == 43000
    assert gpu["memory_total"] == machine_mib(gpus)
    for scope in ("ours", "gpu"):
        stopped = {change.what for change in plan(profile(gpus), scope=scope).changes}
        assert stopped == {f"process {gpus.on_node(gpus.ours, ours)}"}, "who draws is spared"
    record = clean(profile(gpus), scope="gpu")
    assert record.error is None
    evidence = record.steps[0].evidence
    assert (evidence["memory_before"], evidence["memory_after"]) == ({"0": 43000}, {"0": 0})
    assert evidence["left_out"] == {}
    assert not gpus.alive(gpus.ours, ours) and gpus.alive(gpus.node, drawing)


def test_what_others_hold_of_a_gb10_blocks_before_anything_is_touched(gpus: GpuMachine) -> None:
    gpus.set_gpus(GB10)
    ours = gpus.hold(gpus.ours, "VLLM::EngineCore", memory=300)
    gpus.hold(gpus.ours, *TRAINING, memory=9000)
    made = plan(profile(gpus))
    assert made.status == "blocked" and "9000 MiB stay held by" in made.reason
    assert clean(profile(gpus)).error is not None
    assert gpus.alive(gpus.ours, ours)


def test_what_a_thor_does_not_tell_is_left_out_and_reported(gpus: GpuMachine) -> None:
    """Found: our engine was stopped, then "an unknown amount held by nobody visible"."""
    gpus.set_gpus(THOR)
    ours = gpus.hold(gpus.ours, *SERVER, memory=43000)
    other = gpus.hold(gpus.node, "job", memory=500)
    record = clean(profile(gpus))
    assert record.error is None
    evidence = record.steps[0].evidence
    assert not gpus.alive(gpus.ours, ours) and gpus.alive(gpus.node, other)
    assert list(evidence["left_out"]) == ["0"]
    assert "shares the machine's memory" in evidence["left_out"]["0"]
