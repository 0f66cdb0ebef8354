"""nvidia-smi's answers: the right value or unknown, never 0 for what was not reported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.agent.gpu import nvidia_smi, nvidia_table

CASES = Path(__file__).parents[2] / "cases"
H200 = "GPU-8a8de593-34e2-433d-e736-784b06c56428"
GOOD = f"0, {H200}, NVIDIA H200, 00000000:00:06.0, 143771, 8719, 580.159.04, Enabled, Disabled, 9.0"


def text(name: str) -> str:
    return (CASES / name).read_text()


def test_an_h200_is_read_whole() -> None:
    table = nvidia_smi.parse_gpus(0, GOOD + "\n")
    assert table.unknown is None
    assert table.rows == [
        {
            "index": 0,
            "uuid": H200,
            "name": "NVIDIA H200",
            "bus": "00000000:00:06.0",
            "memory_total": 143771,
            "memory_used": 8719,
            "driver": "580.159.04",
            "persistence": True,
            "mig": False,
            "compute_cap": "9.0",
            "unknown": {},
        }
    ]


def test_the_measured_compute_app_of_the_h200() -> None:
    # Measured with the fields in another order than the agent asks for.
    pid, name, memory, uuid = text("h200/compute-apps-busy.csv").strip().split(", ")
    table = nvidia_smi.parse_apps(0, f"{uuid}, {pid}, {name}, {memory}\n")
    row = {"uuid": H200, "pid": 436, "instance": None, "name": "python3", "memory": 8710}
    assert table == nvidia_smi.Table([row], None)


def test_no_process_prints_nothing_and_means_none() -> None:
    assert nvidia_smi.parse_apps(0, "") == nvidia_smi.Table([], None)


def test_names_that_a_container_does_not_know() -> None:
    lines = text("nvidia_smi/csv_shapes.txt").splitlines()
    table = nvidia_smi.parse_apps(0, "\n".join(line for line in lines if "[Not Found]" in line))
    assert [(r["uuid"], r["pid"], r["name"], r["memory"]) for r in table.rows] == [
        ("GPU-4", 2151955, None, 56510),
        ("GPU-a", 42, None, 512),
    ]
    assert table.unknown is None


def test_a_shorter_row_with_the_fields_that_were_asked() -> None:
    line = next(n for n in text("nvidia_smi/csv_shapes.txt").splitlines() if "NVIDIA H20" in n)
    fields = ("index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu")
    (row,) = nvidia_smi.parse_gpus(0, line, fields).rows
    assert (row["index"], row["memory_total"], row["memory_used"]) == (4, 97871, 56533)
    assert row["driver"] is None and "driver_version" in row["unknown"]


ODD = ("[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "", "-5", "12 MiB")


@pytest.mark.parametrize("word", ODD)
def test_memory_that_is_not_digits_is_unknown_and_named(word: str) -> None:
    table = nvidia_smi.parse_gpus(0, GOOD.replace("8719", word))
    (row,) = table.rows
    assert row["memory_used"] is None
    assert row["unknown"] == {"memory.used": word}


@pytest.mark.parametrize(
    ("status", "stdout", "says"),
    [
        (0, "[GPU requires reset], 0 MiB\n", "[GPU requires reset], 0 MiB"),
        (0, ", ".join(["[Unknown Error]"] * 10), "[Unknown Error]"),
        (
            255,
            "Unable to determine the device handle for GPU0: 0000:01:00.0: Unknown Error\n",
            "ended with 255: Unable to determine the device handle",
        ),
        (
            18,
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 575.51\n",
            "Driver/library version mismatch",
        ),
        (255, "Failed to initialize NVML: Unknown Error\n", "Unknown Error"),
        (4, "", "4"),
        (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "libnvidia-ml"),
        (15, "GPU is lost", "ended with 15"),
        (None, GOOD, "did not answer in time"),
    ],
)
def test_what_is_no_answer_makes_the_table_unknown(
    status: int | None, stdout: str, says: str
) -> None:
    table = nvidia_smi.parse_gpus(status, stdout)
    assert table.unknown is not None and says in table.unknown
    assert all(row["memory_used"] != 0 for row in table.rows)


def test_a_complaint_between_the_rows_spoils_the_table_but_not_the_rows() -> None:
    lost = "Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error"
    table = nvidia_smi.parse_gpus(255, f"{GOOD}\n{lost}\n")
    assert [row["memory_used"] for row in table.rows] == [8719]
    assert table.unknown is not None and lost in table.unknown


@pytest.mark.parametrize(
    "name",
    [
        "shared_box_other_workloads.txt",
        "mig_instances.txt",
        "truncated_memory_column.txt",
        "memory_held_no_processes_390.txt",
        "stuck_in_uvm.txt",
        "ps_with_stage_engine.txt",
    ],
)
def test_text_for_people_is_never_taken_for_csv(name: str) -> None:
    for parse in (nvidia_smi.parse_gpus, nvidia_smi.parse_apps):
        table = parse(0, text(f"nvidia_smi/{name}"))
        assert table.rows == [] and table.unknown is not None


def test_an_old_nvidia_smi_names_the_field_that_it_does_not_know() -> None:
    said = 'Field "compute_cap" is not a valid field to query.\n\n'
    assert nvidia_smi.refused_field(said) == "compute_cap"
    assert nvidia_smi.refused_field(GOOD) is None


FIELD = {
    "uuid": "GPU-1c7b2d7e-8e4e-4f6a-9f5d-000000000001",
    "inforom": "0, GPU-1c7b2d7e-8e4e-4f6a-9f5d-000000000001, Tesla P100-PCIE-16GB, "
    "00000000:0B:00.0, 16280, 0, 470.82.01, Enabled, [N/A], 6.0\n"
    "WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n",
    "comma": "GPU-1c7b2d7e-8e4e-4f6a-9f5d-000000000001, 436, /opt/Acme, Inc/bin/trainer, 8710\n",
}


def test_a_warning_and_status_14_are_a_remark_on_the_row() -> None:
    table = nvidia_smi.parse_gpus(14, FIELD["inforom"])
    warning = "WARNING: infoROM is corrupted at gpu 0000:0B:00.0"
    assert table.unknown is None and table.remarks == (warning,)
    (row,) = table.rows
    assert (row["memory_total"], row["memory_used"], row["mig"]) == (16280, 0, False)
    assert row["remarks"] == [warning] and row["unknown"] == {}
    assert nvidia_smi.parse_apps(14, warning + "\n") == nvidia_smi.Table([], None, (warning,))
    silent = nvidia_smi.parse_gpus(14, "")
    assert silent.unknown is not None


def test_only_the_name_may_hold_commas() -> None:
    (row,) = nvidia_smi.parse_apps(0, FIELD["comma"]).rows
    assert (row["pid"], row["name"], row["memory"]) == (436, "/opt/Acme, Inc/bin/trainer", 8710)
    (gpu,) = nvidia_smi.parse_gpus(0, GOOD.replace("NVIDIA H200", "NVIDIA H200, rev. 2")).rows
    assert gpu["name"] == "NVIDIA H200, rev. 2" and gpu["memory_total"] == 143771


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # The form of a Jetson: a UUID without GPU-, hardly a value.
        (
            "0, ddad6ca0-8a4a-5e71-b1b4-95bdcf4fa6b4, Orin (nvgpu), N/A, [N/A], [N/A], 540.3.0, "
            "Disabled, N/A, 8.7",
            {"name": "Orin (nvgpu)", "memory_total": None, "bus": None, "compute_cap": "8.7"},
        ),
        # A vGPU guest: memory is told, the persistence of the host is not.
        (
            "0, GPU-00000000-0000-0000-0000-000000000000, GRID A100D-20C, 00000000:02:00.0, "
            "20480, 1024, 525.60.13, [N/A], [N/A], 8.0",
            {"memory_used": 1024, "persistence": None, "mig": False},
        ),
        # An A100 with MIG: its own memory in use is told in total only.
        (
            f"1, {H200}, NVIDIA A100-SXM4-40GB, 00000000:0F:00.0, 40960, [N/A], 535.129.03, "
            "Enabled, Enabled, 8.0",
            {"memory_total": 40960, "memory_used": None, "mig": True},
        ),
        (GOOD.replace("8719", "ERR!"), {"memory_used": None, "memory_total": 143771}),
        (GOOD.replace("Enabled", "[Unknown Error]"), {"persistence": None, "memory_used": 8719}),
        # Data centre drivers of four parts, and of two.
        (GOOD.replace("580.159.04", "550.54"), {"driver": "550.54"}),
        (GOOD.replace("580.159.04", "[GPU requires reset]"), {"driver": None}),
        (GOOD.replace("00000000:00:06.0", "0000000B:AA:1F.7"), {"bus": "0000000B:AA:1F.7"}),
        (GOOD.replace("9.0", "[Not Supported]"), {"compute_cap": None}),
    ],
)
def test_rows_of_other_cards(line: str, expected: dict[str, object]) -> None:
    table = nvidia_smi.parse_gpus(0, line + "\n")
    (row,) = table.rows
    assert {key: row[key] for key in expected} == expected and table.unknown is None
    assert len(row["unknown"]) >= sum(value is None for value in expected.values())


@pytest.mark.parametrize(
    ("line", "index"),
    [
        ("Unable to determine the device handle for GPU1: 0000:02:00.0: Unknown Error", None),
        ("WARNING: infoROM is corrupted at gpu 0000:00:06.0", 0),
        ("Warning: persistence mode is disabled on device 00000000:00:06.0.", 0),
        ("WARNING: something about nobody", None),
    ],
)
def test_a_remark_stands_with_the_gpu_that_it_names(line: str, index: int | None) -> None:
    table = nvidia_smi.parse_gpus(0, f"{GOOD}\n{line}\n")
    assert table.rows[0].get("remarks", []) == ([line] if index == 0 else [])
    assert (table.unknown is None) == line.lower().startswith("warning")


@given(st.text(max_size=200) | st.lists(st.sampled_from(GOOD.split(", ")) | st.text(max_size=5)))
def test_any_output_is_read_without_a_number_of_its_own(output: str | list[str]) -> None:
    text = output if isinstance(output, str) else ", ".join(output)
    numbers = {int(n) for n in re.findall(r"[0-9]+", text)}
    for table in (nvidia_smi.parse_gpus(0, text), nvidia_smi.parse_apps(0, text)):
        for row in table.rows:
            found = {value for value in row.values() if type(value) is int}
            assert found <= numbers


# -- the tables for people ------------------------------------------------------------------------


def test_a_shared_box() -> None:
    rows = nvidia_table.parse_processes(text("nvidia_smi/shared_box_other_workloads.txt"))
    assert [(r["gpu"], r["pid"], r["name"], r["memory"]) for r in rows] == [
        (0, 76926, "python", 4164),
        (0, 2300098, "python", 3752),
        (0, 3753511, "tritonserver", 2560),
        (1, 3753574, "./grpc_server_main", 5782),
        (1, 3880219, "/usr/bin/python", 7954),
        (2, 2148808, "VLLM::EngineCore", 13074),
        (2, 3180618, "./grpc_server_main", 740),
    ]


def test_mig_instances() -> None:
    rows = nvidia_table.parse_processes(text("nvidia_smi/mig_instances.txt"))
    assert [(r["gpu"], r["instance"], r["pid"], r["memory"]) for r in rows] == [
        (0, None, 55111, 20481),
        (1, "3/0", 34965, 14195),
        (1, "3/0", 56597, 149),
        (1, "5/0", 46505, 9807),
        (2, "3/0", 26294, 15191),
    ]


def test_a_memory_column_that_was_cut_is_unknown() -> None:
    rows = nvidia_table.parse_processes(text("nvidia_smi/truncated_memory_column.txt"))
    assert [(r["gpu"], r["pid"], r["memory"]) for r in rows] == [
        (0, 1740209, None),
        (1, 1740210, None),
        (3, 1744542, None),
    ]


def test_memory_in_use_without_any_process() -> None:
    shown = text("nvidia_smi/memory_held_no_processes_390.txt")
    assert nvidia_table.parse_processes(shown) == []


def test_the_measured_table_of_the_h200() -> None:
    shown = text("h200/nvidia-smi-busy.txt")
    (row,) = nvidia_table.parse_processes(shown)
    process = {"pid": 436, "name": "python3", "type": "C", "memory": 8710}
    assert row == {"gpu": 0, "instance": None, **process}


def test_the_table_tells_what_the_csv_does_not() -> None:
    rows = nvidia_smi.parse_apps(0, f"{H200}, 436, python3, [N/A]").rows
    shown = nvidia_table.parse_processes(text("h200/nvidia-smi-busy.txt"))
    gpu: Any = {"uuid": H200, "index": 0}
    nvidia_smi.fill_memory(rows, [gpu], shown)
    assert rows[0]["memory"] == 8710


def test_a_mig_instance_belongs_to_the_gpu_above_it() -> None:
    listed = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-a1)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-77)\n"
        "  MIG 1g.5gb      Device  0: (UUID: MIG-GPU-77/3/0)\n"
    )
    parents = nvidia_table.mig_parents(listed)
    assert parents == {"MIG-a1": "GPU-5d5ba0d6", "MIG-GPU-77/3/0": "GPU-77"}
    rows = nvidia_smi.parse_apps(0, "MIG-a1, 7, python, 10\nMIG-b2, 8, python, 10").rows
    assert nvidia_smi.to_gpus(rows, parents) == "the GPU of instance MIG-b2 was not reported"
    assert [row["uuid"] for row in rows] == ["GPU-5d5ba0d6", None]


LINKS = """\
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity
GPU0\t X \tNV18\tSYS\tPXB\t0-47
GPU1\tNV18\t X \tSYS\tPXB\t0-47
GPU2\tSYS\tSYS\t X \tSYS\t48-95
NIC0\tPXB\tPXB\tSYS\t X

Legend:
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def test_nvlink_peers() -> None:
    assert nvidia_table.parse_links(LINKS) == {0: [1], 1: [0], 2: []}
    assert nvidia_table.parse_links("\x1b[4m\tGPU0\x1b[0m\nGPU0\t X \n") == {0: []}
    for odd in ("", "No devices were found", LINKS.replace("GPU2\tSYS\tSYS\t X ", "GPU2\tSYS")):
        assert nvidia_table.parse_links(odd) is None
