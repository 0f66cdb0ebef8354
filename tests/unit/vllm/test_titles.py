"""Which process is which part of a vLLM server, and which only talks about one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deployctl.vllm.serving.titles import LOOK_FOR, part

CASES = Path(__file__).parents[2] / "cases"


@pytest.mark.parametrize(
    ("comm", "command", "expected"),
    [
        ("VLLM::EngineCor", ["VLLM::EngineCore"], "engine"),
        ("VLLM::EngineCor", [], "engine"),
        ("VLLM::Worker_TP", ["VLLM::Worker_TP0"], "engine"),
        ("VLLM::StageEngi", ["VLLM::StageEngineCoreProc_DP0"], "engine"),
        ("VLLM::EngineCor", ["VLLM::EngineCore_DP1      "], "engine"),
        ("prod::EngineCor", ["prod::EngineCore"], "engine"),
        ("team-a::Worker_", [], "engine"),
        ("std::vector", ["std::vector"], None),
        ("ray::RayWorkerW", ["ray::RayWorkerWrapper.execute_method"], "ray-worker"),
        ("ray::train_fn", ["ray::train_fn"], None),
        ("raylet", ["/env/ray/raylet", "--raylet_socket_name=x"], "ray-node"),
        ("vllm", ["/env/bin/python", "/env/bin/vllm", "serve", "/m", "--port", "1"], "server"),
        ("vllm", ["/env/bin/vllm", "serve", "/m"], "server"),
        ("vllm", [], "server"),
        ("vllm", ["/env/bin/python", "/env/bin/vllm", "bench", "serve"], None),
        ("python", ["python", "-m", "vllm.entrypoints.openai.api_server"], "server"),
        ("python3", ["python3", "-m", "vllm_omni.entrypoints.cli.main", "serve", "/m"], "server"),
        ("python3", ["python3", "-m", "vllm.entrypoints.cli.main", "chat"], None),
        ("python3", ["python3", "-X", "dev", "-u", "/env/bin/vllm", "serve", "/m"], "server"),
        ("python", ["python", "-c", "from multiprocessing.spawn import spawn_main"], "helper"),
        ("bash", ["bash", "-c", "vllm serve /models/m --port 8000"], None),
        ("bash", ["bash", "-c", "exec", "vllm", "serve"], None),
        ("tail", ["tail", "-f", "vllm.log"], None),
        ("python", ["python", "train.py", "--note", "VLLM::EngineCore"], None),
        ("grep", ["grep", "VLLM::EngineCore"], None),
        ("systemd", [], None),
        ("vllm", ["/env/bin/python", "/root/units/server/next/launcher.py", "wait", "9"], "server"),
        ("python", ["/env/bin/python", "/root/units/server/next/launcher.py", "wait", "9"], None),
    ],
)
def test_part(comm: str, command: list[str], expected: str | None) -> None:
    assert part(comm, command) == expected


def test_the_four_processes_of_a_stage_engine() -> None:
    shown = (CASES / "nvidia_smi/ps_with_stage_engine.txt").read_text().splitlines()[1:]
    commands = [line.split(None, 7)[7] for line in shown]
    # ps joins the arguments; the code after -c is one of them.
    split = [c.split(" ", 2) if " -c " in c else c.split() for c in commands]
    assert [part(Path(argv[0]).name[:15], argv) for argv in split] == [
        "server",
        "helper",
        "engine",
        "engine",
    ]


def test_every_process_of_a_real_server_passes_the_sieve() -> None:
    for words in ("VLLM::EngineCor", "vllm", "ray::RayWorkerW", "/env/ray/raylet"):
        assert any(re.search(pattern, words) for pattern in LOOK_FOR)
