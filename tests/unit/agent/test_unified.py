"""GPUs that share the machine's memory, as nvidia-smi writes them."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.gpu import gpu as gpu_answers
from deployctl.agent.gpu import nvidia_smi, nvml, unified

MEMINFO = "MemTotal:       125537280 kB\nMemFree:        1 kB\nMemAvailable:   2048 kB\n"
SPARK = "0, GPU-9aa1, NVIDIA GB10, 0000000F:01:00.0, {}, {}, 580.95.05, Disabled, {}, 12.1"


def gpus(total: str, used: str = "[N/A]", mig: str = "[N/A]") -> list[Any]:
    rows = nvidia_smi.parse_gpus(0, SPARK.format(total, used, mig)).rows
    unified.mark(rows, MEMINFO)
    return rows


def app(memory: int | None) -> Any:
    return {"uuid": "GPU-9aa1", "pid": 7, "memory": memory}


@pytest.mark.parametrize("total", ["[N/A]", "N/A", "[Not Supported]", "Not Supported"])
def test_its_memory_is_the_machines_and_its_holders_use(total: str) -> None:
    (gpu,) = gpus(total)
    assert gpu["unified"] and gpu["memory_total"] == 125537280 // 1024
    assert gpu["memory_available"] == 2
    for held, used in (([], 0), ([app(43000), app(200)], 43200), ([app(43000), app(None)], None)):
        unified.fill([gpu], held, None)
        assert gpu["memory_used"] == used
    unified.fill([gpu], [], "not told")
    assert gpu["memory_used"] is None


@pytest.mark.parametrize("total", ["[Unknown Error]", "[GPU requires reset]", "ERR!", "143771"])
def test_what_cannot_be_read_is_not_the_machines(total: str) -> None:
    (gpu,) = gpus(total, "0")
    assert not gpu["unified"]
    unified.fill([gpu], [app(5)], None)
    assert gpu["memory_used"] == 0


def test_nvml_alone_knows_such_a_gpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nvidia-smi: NVML's "not supported" is nvidia-smi's."""

    def refused(*_: Any) -> Any:
        raise nvml.Refused("nvmlDeviceGetMemoryInfo_v2", nvml.NOT_SUPPORTED)

    asked = nvml.Nvml.__new__(nvml.Nvml)
    monkeypatch.setattr(nvml.Nvml, "call", lambda *_: None)
    monkeypatch.setattr(nvml.Nvml, "_memory", refused)
    monkeypatch.setattr(nvml.Nvml, "_processes", lambda *_: [{"pid": 7, "memory": 43000}])
    told = {"gpus": [asked.gpu(0)], "unknown": None}
    monkeypatch.setattr(nvml, "ask", lambda *_: told)
    answer = gpu_answers._by_nvml(Call("/", lambda event: None), 1.0, "no nvidia-smi")
    (found,) = answer["gpus"]
    assert found["unified"] and found["memory_used"] == 43000 and found["memory_total"]
