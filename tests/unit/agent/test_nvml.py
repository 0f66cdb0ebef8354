"""What NVML tells beside nvidia-smi: values that are filled in, processes, and no library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployctl.agent.gpu import nvidia_smi, nvml

UUID = "GPU-8a8de593-34e2-433d-e736-784b06c56428"
ROW = f"0, {UUID}, NVIDIA H200, N/A, 143771, [Unknown Error], 580.159.04, Enabled, Disabled, 9.0"
TOLD: dict[str, Any] = {
    "uuid": UUID,
    "bus": "00000000:00:06.0",
    "memory_used": 8719,
    "memory_total": 1,
    "apps": [{"pid": 436, "memory": 8710}, {"pid": 437, "memory": None}],
}


def test_what_nvidia_smi_does_not_tell_is_filled_in_and_nothing_else() -> None:
    (row,) = nvidia_smi.parse_gpus(0, ROW).rows
    assert set(row["unknown"]) == {"pci.bus_id", "memory.used"}
    nvml.fill([row], [TOLD, {"uuid": "GPU-other", "memory_used": 5}])
    assert (row["bus"], row["memory_used"]) == ("00000000:00:06.0", 8719)
    assert row["memory_total"] == 143771 and row["unknown"] == {}
    (other,) = nvidia_smi.parse_gpus(0, ROW).rows
    nvml.fill([other], [])
    assert other["memory_used"] is None and other["unknown"]


def test_processes_have_the_form_of_nvidia_smi_s() -> None:
    assert nvml.apps([dict(TOLD)]) == [
        {"uuid": UUID, "instance": None, "name": None, "pid": 436, "memory": 8710},
        {"uuid": UUID, "instance": None, "name": None, "pid": 437, "memory": None},
    ]
    assert nvml.apps([{"uuid": UUID, "apps": None}]) is None


def test_without_the_library_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libno-such-library.so.1")
    nvml.main()
    assert json.loads(capsys.readouterr().out)["unknown"].startswith("NVML: libno-such-library")
