"""Stopping is exact: under PID reuse, and for processes in every odd state."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deployctl.hosts.session import Session
from tests.hosts.gpu.machine import GpuMachine
from tests.hosts.lab.namespaces import wait_for

pytestmark = pytest.mark.lab


def look(agent: Session) -> dict[int, dict[str, Any]]:
    answer = agent.call("gpu.holders", patterns=["VLLM"])
    return {entry["pid"]: entry for entry in answer["processes"]}


def stop(agent: Session, entry: dict[str, Any], device: bool = True, **how: float) -> Any:
    target = {"pid": entry["pid"], "start": entry["start"], "device": device}
    (row,) = agent.call("gpu.stop", targets=[target], **{"grace": 60.0, "patience": 60.0, **how})
    return row


def state_of(gpus: GpuMachine, pid: int) -> str:
    found = gpus.node.run("sh", "-c", f"cut -d' ' -f3 /proc/{pid}/stat", check=False)
    return found.stdout.strip()


@pytest.mark.parametrize(
    ("spec", "grace", "fate"),
    [
        ({}, 60.0, "ended"),
        ({"deaf": True}, 0.5, "killed"),
        # It lives on, so all of the grace is waited for.
        ({"releases": True}, 5.0, "spared"),
    ],
)
def test_what_becomes_of_a_holder(
    gpus: GpuMachine, spec: dict[str, Any], grace: float, fate: str
) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", **spec)
    with gpus.agent() as agent:
        row = stop(agent, look(agent)[pid], grace=grace)
    assert row["fate"] == fate
    assert gpus.alive(gpus.node, pid) == (fate == "spared")


def test_what_our_records_name_ends_also_after_it_let_go_of_the_gpu(gpus: GpuMachine) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", releases=True)
    with gpus.agent() as agent:
        assert stop(agent, look(agent)[pid], device=False, grace=0.5)["fate"] == "killed"
    assert not gpus.alive(gpus.node, pid)


def test_a_pid_given_anew_is_spared(gpus: GpuMachine) -> None:
    """The new process has the old one's PID and holds the device too."""
    pid = gpus.hold(gpus.node, "VLLM::EngineCore")
    with gpus.agent() as agent, gpus.agent() as other:
        entry = look(agent)[pid]
        gpus.node.run("kill", "-KILL", str(pid))
        wait_for("the end of the first", lambda: not gpus.alive(gpus.node, pid))
        assert rebirth(gpus, pid) == pid
        heir = look(other)[pid]
        assert heir["devices"] == ["nvidia0"] and heir["start"] != entry["start"]
        assert stop(agent, entry)["fate"] == "gone", "by the pidfd held since the look"
        assert stop(other, entry)["fate"] == "gone", "by the start time alone"
        assert gpus.alive(gpus.node, pid)


def rebirth(gpus: GpuMachine, pid: int) -> int:
    """Start a holder that gets this PID: the kernel is told the last one that it gave."""
    start = "exec python3 /stand_in/holder_stand_in.py start"
    spec = '{"argv": ["VLLM::EngineCore"], "devices": ["/dev/nvidia0"], "memory": 1}'
    # The shell becomes the starter, whose next child gets the number.
    set_last = f"echo {pid - 1} >/proc/sys/kernel/ns_last_pid"
    for _ in range(50):
        found = gpus.node.run("sh", "-c", f"{set_last}; {start} '{spec}'").stdout
        heir = int(found)
        gpus.remember(gpus.node, heir)
        if heir == pid:
            return heir
        gpus.node.run("kill", "-KILL", str(heir))
    return heir


def test_a_zombie_holds_nothing_and_is_not_signalled(gpus: GpuMachine) -> None:
    child = {"argv": ["VLLM::Worker_TP0"], "devices": ["/dev/nvidia0"]}
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", children=[child])
    with gpus.agent() as agent:
        before = look(agent)
        (worker,) = [entry for entry in before.values() if entry["parent"] == pid]
        gpus.node.run("kill", "-KILL", str(worker["pid"]))
        wait_for("a zombie", lambda: state_of(gpus, worker["pid"]) == "Z")
        after = look(agent)[worker["pid"]]
        assert after["zombie"] and after["devices"] == []
        assert stop(agent, worker)["fate"] == "gone"


def test_a_stopped_process_hears_sigterm(gpus: GpuMachine) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore")
    gpus.node.run("kill", "-STOP", str(pid))
    wait_for("it to be stopped", lambda: state_of(gpus, pid) == "T")
    with gpus.agent() as agent:
        assert stop(agent, look(agent)[pid])["fate"] == "ended"


def test_a_frozen_container_is_named_and_not_signalled(gpus: GpuMachine) -> None:
    inner = gpus.hold(gpus.ours, "VLLM::EngineCore")
    pid = gpus.on_node(gpus.ours, inner)
    gpus.ours.freeze()
    try:
        with gpus.agent() as agent:
            entry = look(agent)[pid]
            assert entry["frozen"]
            began = time.monotonic()
            assert stop(agent, entry)["fate"] == "frozen"
            assert time.monotonic() - began < 60, "nothing was waited for"
    finally:
        gpus.ours.thaw()
    assert gpus.alive(gpus.ours, inner)


def test_a_process_stuck_in_the_kernel_is_reported_with_where(
    gpus: GpuMachine, frozen_disk: str
) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore", block=frozen_disk)
    gpus.node.run("kill", "-USR1", str(pid))
    wait_for("it to be stuck", lambda: state_of(gpus, pid) == "D")
    with gpus.agent() as agent:
        began = time.monotonic()
        row = stop(agent, look(agent)[pid], grace=0.5, patience=1.0)
        assert time.monotonic() - began < 60
    assert row["fate"] == "left" and "reboot needed" in row["why"]
    (thread,) = row["stuck"]
    assert thread["state"] == "D"
    assert thread["channel"] or thread["stack"]
