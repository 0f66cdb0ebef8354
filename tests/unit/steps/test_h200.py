"""What was measured on two real H200s, judged again: tests/cases/h200/NOTES.md tells the story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.gpu import nvidia_table
from deployctl.agent.wire.gpus import GpuState
from deployctl.config.clean import Scope
from deployctl.steps.gpus import passthrough
from deployctl.steps.gpus.holders import Process, join
from deployctl.steps.gpus.ownership import Mine, judge, select
from tests.unit.whole import whole

CASES = Path(__file__).parents[2] / "cases/h200"
GPU0 = "GPU-bbeb6ab1-d30f-584b-a49c-44e33d981bcd"
GPU1 = "GPU-d21a9032-4201-5215-f900-d3f485ca323c"


def case(name: str) -> Any:
    return json.loads((CASES / f"two-gpus-{name}.json").read_text())


def processes(state: Any) -> list[Process]:
    return join(case("holders"), whole(GpuState, state))


MINE = Mine("h200", namespace=case("holders")["namespace"], gpus=frozenset({GPU1}))


def test_nvidia_smi_tells_which_of_the_opened_gpus_is_used() -> None:
    found = {p.pid: (p.gpus, p.memory) for p in processes(case("state"))}
    assert found == {
        640: (frozenset({GPU1}), 8710),
        649: (frozenset({GPU1}), 2566),
        652: (frozenset({GPU1}), 618),
        655: (frozenset({GPU0}), 818),
    }
    assert all({"nvidia0", "nvidia1"} <= p.devices for p in processes(case("state")))


@pytest.mark.parametrize(("scope", "ends"), [("ours", [640, 649]), ("gpu", [640, 649, 652])])
def test_who_is_stopped_is_who_was(scope: Scope, ends: list[int]) -> None:
    chosen = select(judge(processes(case("state")), MINE), MINE, scope)
    assert sorted(v.process.pid for v in chosen.stop) == ends
    measured = case("clean")["clean_ours"]
    if scope == "ours":
        assert [row["pid"] for row in measured["stopped"]] == ends
        assert measured["alive_after"] == {
            "ours": False,
            "deaf": False,
            "foreign": True,
            "other": True,
        }


def test_without_the_list_of_processes_a_title_proves_nothing() -> None:
    """By device files alone each holds both GPUs, and not all of them are the profile's."""
    state = {**case("state"), "apps": [], "apps_unknown": "nvidia-smi did not answer in time"}
    container = Mine("other", namespace=MINE.namespace, container=True, gpus=frozenset({GPU1}))
    bare = [p for p in processes(state) if p.pid != 652]
    assert all(p.gpus == frozenset({GPU0, GPU1}) for p in bare)
    assert select(judge(bare, container), container, "gpu").stop == ()


def test_the_measured_tables() -> None:
    assert nvidia_table.parse_links((CASES / "two-gpus-links.txt").read_text()) == {0: [1], 1: [0]}
    shown = (CASES / "two-gpus-table.txt").read_text()
    rows = {row["pid"]: (row["gpu"], row["memory"]) for row in nvidia_table.parse_processes(shown)}
    assert rows == {655: (0, 818), 640: (1, 8710), 649: (1, 2566), 652: (1, 618)}


def test_cuda_as_it_answered() -> None:
    (finding,) = passthrough.cuda(case("doctor")["cuda"], "conf")
    assert (finding.verdict, finding.measured) == ("ok", "2 GPUs, CUDA 13.0")
    assert {f["verdict"] for f in case("doctor")["idle"]} == {"ok"}
