"""nvidia-smi as people have it: rows, complaints and lists from public reports, in our own small
form. Each row names its source."""

from __future__ import annotations

import pytest

from deployctl.agent.gpu import nvidia_smi, nvidia_table, unified

FIELDS = nvidia_smi.GPU_FIELDS
OLD = tuple(f for f in FIELDS if f not in ("compute_cap", "mig.mode.current"))
UUID = "GPU-2dee1e25-b3b5-007e-2b55-79f2d0f2ebe5"


@pytest.mark.parametrize(
    ("source", "fields", "row", "expected", "unknown"),
    [
        (
            "HSF/prmon#317: a vGPU of a MIG instance",
            FIELDS,
            f"0, {UUID}, NVIDIA H100L-2-24C, 00000000:02:00.0, 24576, 0, 550.90.07, Enabled, "
            "Enabled, 9.0",
            {"name": "NVIDIA H100L-2-24C", "memory_total": 24576, "memory_used": 0, "mig": True},
            [],
        ),
        (
            "XuehaiPan/nvitop#208: DGX Spark",
            FIELDS,
            f"0, {UUID}, NVIDIA GB10, 0000000F:01:00.0, [N/A], [N/A], 580.173.02, Enabled, [N/A], "
            "12.1",
            {"bus": "0000000F:01:00.0", "memory_total": None, "mig": False, "compute_cap": "12.1"},
            ["memory.total", "memory.used"],
        ),
        (
            "sgl-project/sglang#11287: Jetson Thor, JetPack 7",
            FIELDS,
            f"0, {UUID}, NVIDIA Thor, 00000000:01:00.0, Not Supported, Not Supported, 580.00, "
            "Disabled, Disabled, 11.0",
            {"name": "NVIDIA Thor", "memory_total": None, "driver": "580.00", "mig": False},
            ["memory.total", "memory.used"],
        ),
        (
            "NVIDIA/nvidia-container-toolkit#842: a MIG instance in a container",
            FIELDS,
            f"0, {UUID}, NVIDIA H100 PCIe, 00000000:17:00.0, [Insufficient Permissions], "
            "[Insufficient Permissions], 550.127.08, Enabled, Enabled, 9.0",
            {"memory_total": None, "memory_used": None, "mig": True, "driver": "550.127.08"},
            ["memory.total", "memory.used"],
        ),
        (
            "netdata/netdata#4892: a laptop's GPU, before MIG and compute_cap",
            OLD,
            f"0, {UUID}, GeForce GTX 960M, 00000000:01:00.0, 4046, 0, 410.72, Disabled",
            {"memory_total": 4046, "memory_used": 0, "mig": None, "compute_cap": None},
            ["mig.mode.current", "compute_cap"],
        ),
        (
            "enkore/i3pystatus#776: drivers before 440",
            FIELDS,
            f"0, {UUID}, GeForce MX250, 00000000:02:00.0, 2004, 0, 435.21, Disabled, "
            "[Not Supported], [Not Supported]",
            {"memory_total": 2004, "mig": False, "compute_cap": None},
            ["compute_cap"],
        ),
        (
            "open-mpi/hwloc#354: a PCI domain of more than 16 bits",
            FIELDS,
            f"1, {UUID}, Quadro RTX 6000, 00010001:01:00.0, 24576, 11, 525.89.02, Enabled, [N/A], "
            "7.5",
            {"bus": "00010001:01:00.0", "memory_used": 11},
            [],
        ),
        (
            "microsoft/WSL#7162: what cannot be read there, at any place",
            FIELDS,
            f"0, {UUID}, ERR!, ERR!, 8192, ERR!, 510.06, ERR!, ERR!, ERR!",
            {"name": None, "bus": None, "memory_total": 8192, "memory_used": None, "mig": None},
            [
                "name",
                "pci.bus_id",
                "memory.used",
                "persistence_mode",
                "mig.mode.current",
                "compute_cap",
            ],
        ),
    ],
)
def test_rows_of_people(
    source: str, fields: tuple[str, ...], row: str, expected: dict[str, object], unknown: list[str]
) -> None:
    table = nvidia_smi.parse_gpus(0, row + "\n", fields)
    (gpu,) = table.rows
    assert table.unknown is None, source
    assert {key: gpu[key] for key in expected} == expected
    assert sorted(gpu["unknown"]) == sorted(unknown)


@pytest.mark.parametrize(
    ("word", "shared"), [("[N/A]", True), ("Not Supported", True), ("[Unknown Error]", False)]
)
def test_memory_that_a_gpu_has_not_is_the_machines(word: str, shared: bool) -> None:
    # XuehaiPan/nvitop#208, with its MemTotal; enkore/i3pystatus#850 for the error
    row = f"0, {UUID}, NVIDIA GB10, 0000000F:01:00.0, {word}, {word}, 580.173, Enabled, [N/A], 12.1"
    gpus = nvidia_smi.parse_gpus(0, row).rows
    unified.mark(gpus, "MemTotal:       127600748 kB\n")
    assert gpus[0]["unified"] is shared
    assert gpus[0]["memory_total"] == (124610 if shared else None)


def gpu(index: int, bus: str) -> str:
    return f"{index}, GPU-{index}-a, NVIDIA A100, {bus}, 40960, 0, 550.54, Enabled, Disabled, 8.0"


@pytest.mark.parametrize(
    ("source", "buses", "line", "about"),
    [
        (
            "beam-cloud/beta9#984, FoldingAtHome/fah-client-bastet#346: Azure's differ by domain",
            ("00000001:00:00.0", "00000002:00:00.0"),
            "WARNING: infoROM is corrupted at gpu 0002:00:00.0",
            [1],
        ),
        (
            "ethereum-mining/ethminer#2101: POWER's too",
            ("00000004:04:00.0", "00000035:04:00.0"),
            "WARNING: infoROM is corrupted at gpu 0035:04:00.0",
            [1],
        ),
        (
            "JosephKJ/OWOD#81: one that is not among the rows",
            ("00000000:01:00.0", "00000000:03:00.0"),
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. Reboot the "
            "system to recover this GPU",
            [],
        ),
        (
            "NVIDIA/dcgm-exporter#604: its address is odd",
            ("00000000:01:00.0", "00000000:BA:00.0"),
            "Unable to determine the device handle for GPU 000:BA:80.0: Unknown Error",
            [],
        ),
        (
            "nvidia-smi of drivers since 515: no space before the address",
            ("00000000:01:00.0", "00000000:02:00.0"),
            "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error",
            [1],
        ),
        (
            "a Jetson has no address: the start of another's is no index",
            ("[N/A]", "00000000:02:00.0"),
            "Unable to determine the device handle for GPU 0000:03:00.0: Unknown Error",
            [],
        ),
    ],
)
def test_whom_a_complaint_is_about(
    source: str, buses: tuple[str, ...], line: str, about: list[int]
) -> None:
    rows = "\n".join(gpu(index, bus) for index, bus in enumerate(buses))
    table = nvidia_smi.parse_gpus(0, f"{rows}\n{line}\n")
    assert [row["index"] for row in table.rows if "remarks" in row] == about, source
    assert (table.unknown is None) == line.startswith("WARNING")


@pytest.mark.parametrize(
    ("source", "status", "said", "expected"),
    [
        ("microsoft/WSL#11870", -11, "", "nvidia-smi was ended by signal 11 without output"),
        (
            "microsoft/WSL#9134",
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n\n"
            "Failed to properly shut down NVML: Driver Not Loaded\n",
            "nvidia-smi ended with 9: NVIDIA-SMI has failed because it couldn't communicate",
        ),
        (
            "xxd3vin/workspace#19",
            255,
            "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n",
            "nvidia-smi ended with 255: Unable to determine the device handle for GPU 0000:0B:00.0",
        ),
        (
            "lestofante/ksysguard-gpu#27: an empty line is none",
            0,
            "\n" + gpu(0, "00000000:01:00.0") + "\n\n",
            None,
        ),
    ],
)
def test_answers_that_are_none(source: str, status: int, said: str, expected: str | None) -> None:
    unknown = nvidia_smi.parse_gpus(status, said).unknown
    assert unknown is None if expected is None else str(unknown).startswith(expected), source


@pytest.mark.parametrize(
    ("source", "row", "memory", "name"),
    [
        (
            "utkuozdemir/nvidia_gpu_exporter#438",
            f"{UUID}, 7, C:\\a, b\\x.exe, [N/A]",
            None,
            "C:\\a, b\\x.exe",
        ),
        (
            "the same: a process of somebody else",
            f"{UUID}, 7, [Insufficient Permissions], [Insufficient Permissions]",
            None,
            None,
        ),
        (
            "rossumai/nvgpu#35",
            f"{UUID}, 3095759, /home/s/miniconda3/bin/python, 10998",
            10998,
            "/home/s/miniconda3/bin/python",
        ),
    ],
)
def test_processes_of_people(source: str, row: str, memory: int | None, name: str | None) -> None:
    table = nvidia_smi.parse_apps(0, row + "\n")
    assert table.unknown is None, source
    assert [(app["memory"], app["name"]) for app in table.rows] == [(memory, name)]


def test_processes_of_wsl() -> None:
    # XuehaiPan/nvitop#49: no memory, a name from the root
    line = "|    0   N/A  N/A        23      G   /Xwayland                       N/A      |"
    (row,) = nvidia_table.parse_processes(line)
    assert (row["pid"], row["name"], row["type"], row["memory"]) == (23, "/Xwayland", "G", None)


@pytest.mark.parametrize(
    ("source", "listed", "parents"),
    [
        (
            "NVIDIA/nvidia-container-toolkit#203",
            "GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-932bfb2c)\n"
            "  MIG 3g.40gb     Device  0: (UUID: MIG-0929581a)\n"
            "  MIG 3g.40gb     Device  1: (UUID: MIG-3adbed3a)\n",
            {"MIG-0929581a": "GPU-932bfb2c", "MIG-3adbed3a": "GPU-932bfb2c"},
        ),
        (
            "NVIDIA/mig-parted#6: drivers before 470",
            "GPU 0: A100-SXM4-40GB (UUID: GPU-63feeb45)\n"
            "  MIG 1c.3g.20gb Device 0: (UUID: MIG-GPU-63feeb45/1/0)\n",
            {"MIG-GPU-63feeb45/1/0": "GPU-63feeb45"},
        ),
        (
            "NVIDIA/NemoClaw#9154: a Jetson with MIG, beside another card",
            "GPU 0: NVIDIA RTX A6000 (UUID: GPU-1)\n"
            "GPU 1: NVIDIA Thor (UUID: ddad6ca0-8a4a-5e71-b1b4-95bdcf4fa6b4)\n"
            "  MIG 1g.8gb      Device  0: (UUID: MIG-7)\n",
            {"MIG-7": "ddad6ca0-8a4a-5e71-b1b4-95bdcf4fa6b4"},
        ),
        (
            "a card without a UUID: its instance is nobody's, not the card's above",
            "GPU 0: NVIDIA A100 (UUID: GPU-1)\nGPU 1: ERR!\n  MIG 1g.5gb Device 0: (UUID: MIG-7)\n",
            {},
        ),
    ],
)
def test_lists_of_people(source: str, listed: str, parents: dict[str, str]) -> None:
    assert nvidia_table.mig_parents(listed) == parents, source
