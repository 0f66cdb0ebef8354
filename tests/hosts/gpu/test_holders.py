"""Holders found by device number over nodes and containers, on real processes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.hosts.gpu.machine import DEVICES, UUIDS, GpuMachine

pytestmark = pytest.mark.lab


def found(gpus: GpuMachine, place: str = "node") -> dict[int, dict[str, Any]]:
    with gpus.agent(place) as agent:
        answer = agent.call("gpu.holders", patterns=["VLLM"])
    return {entry["pid"]: entry for entry in answer["processes"]}


def test_the_state_of_the_gpus_and_their_processes(gpus: GpuMachine) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", memory=8710)
    with gpus.agent() as agent:
        state = agent.call("gpu.state")
    assert state["present"] and state["unknown"] is None
    assert [(g["index"], g["uuid"], g["memory_used"]) for g in state["gpus"]] == [
        (0, UUIDS[0], 8710),
        (1, UUIDS[1], 0),
    ]
    assert [(app["uuid"], app["pid"], app["memory"]) for app in state["apps"]] == [
        (UUIDS[0], pid, 8710)
    ]


@pytest.mark.parametrize("kind", ["ours", "other"])
def test_the_node_sees_into_containers_by_either_passthrough(gpus: GpuMachine, kind: str) -> None:
    container = getattr(gpus, kind)
    inner = gpus.hold(container, "VLLM::EngineCore")
    pid = gpus.on_node(container, inner)
    entry = found(gpus)[pid]
    assert entry["devices"] == ["nvidia0"]
    assert entry["inner_pids"] == [pid, inner]
    assert len(entry["namespaces"]) == 2
    assert entry["comm"] == "VLLM::EngineCor"
    assert entry["command"] == ["VLLM::EngineCore"]
    assert entry["state"] == "S" and not entry["frozen"] and not entry["zombie"]


def test_fuser_is_blind_to_a_device_with_another_inode(gpus: GpuMachine) -> None:
    gpus.hold(gpus.ours, "VLLM::EngineCore")
    assert gpus.node.run("fuser", "/dev/nvidia0", check=False).stdout.strip() == ""


def test_a_container_sees_its_own_and_nothing_else(gpus: GpuMachine) -> None:
    inner = gpus.hold(gpus.ours, "VLLM::EngineCore")
    gpus.hold(gpus.other, "VLLM::EngineCore")
    gpus.hold(gpus.node, "VLLM::EngineCore")
    assert list(found(gpus, "ours")) == [inner]


def test_an_nvidia_smi_that_hangs_is_left_after_its_time(gpus: GpuMachine) -> None:
    gpus.set_gpus(hangs=True)
    with gpus.agent() as agent:
        began = time.monotonic()
        state = agent.call("gpu.state", timeout=0.5)
        assert time.monotonic() - began < 300
    assert state["present"] and state["unknown"] == "nvidia-smi did not answer in time"


def test_an_nvidia_smi_that_knows_fewer_fields_is_asked_for_those(gpus: GpuMachine) -> None:
    gpus.set_gpus(hide=["compute_cap", "mig.mode.current"])
    with gpus.agent() as agent:
        state = agent.call("gpu.state")
    assert state["unknown"] is None
    gpu = state["gpus"][0]
    assert gpu["memory_used"] == 0 and gpu["compute_cap"] is None and gpu["mig"] is None
    assert set(gpu["unknown"]) == {"compute_cap", "mig.mode.current"}


def test_without_nvidia_smi_a_loaded_driver_is_unknown(gpus: GpuMachine) -> None:
    gpus.node.run("mv", "/usr/bin/nvidia-smi", "/usr/bin/not-there")
    try:
        with gpus.agent() as agent:
            state = agent.call("gpu.state")
    finally:
        gpus.node.run("mv", "/usr/bin/not-there", "/usr/bin/nvidia-smi")
    assert state["present"] and "no nvidia-smi to ask" in state["unknown"]


def test_a_device_is_held_by_a_mapping_alone(gpus: GpuMachine) -> None:
    """Here /dev/zero is the one device that can be mapped, so it plays the GPU's."""
    gpus.write("/stand_in/devices", "Character devices:\n  1 nvidia\n\nBlock devices:\n")
    try:
        pid = gpus.hold(gpus.node, "VLLM::EngineCore", devices=[], mapped=["/dev/zero"])
        entry = found(gpus)[pid]
    finally:
        gpus.write("/stand_in/devices", DEVICES)
    assert entry["mapped"] == ["nvidia5"] and "nvidia5" not in entry["devices"]
