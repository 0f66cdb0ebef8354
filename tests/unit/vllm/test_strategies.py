"""Which strategies are tried, in which order, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployctl.vllm.builds import sources
from deployctl.vllm.builds.strategies import (
    GIB,
    SourceFacts,
    choices,
    compile_environment,
    compiler_problem,
    jobs,
)

TOOLS = {
    "gcc": "/usr/bin/gcc",
    "nvcc": "/usr/bin/nvcc",
    "nvcc_version": "12.9",
    "cpus": 16,
    "capabilities": ["12.0"],
    "memory_available": 64 * GIB,
}
PYTHON = SourceFacts(
    commit="c" * 40,
    merge_base="b" * 40,
    changed=("vllm/v1/core/sched/scheduler.py", "tests/v1/test_x.py"),
    tag="v0.30.0",
    tools=TOOLS,
)


def possible(facts: SourceFacts, forced: str = "auto") -> list[str]:
    return [choice.strategy for choice in choices(facts, forced) if choice.possible]


def test_a_kept_wheel_is_first() -> None:
    assert possible(replace(PYTHON, kept=True, precompiled="https://x")) == [
        "reuse",
        "precompiled",
        "source",
        "patch",
    ]


def test_without_binaries_of_that_commit() -> None:
    assert possible(PYTHON) == ["source", "patch"]


@pytest.mark.parametrize(
    "path",
    [
        "csrc/attention/x.cu",
        "cmake/utils.cmake",
        "CMakeLists.txt",
        "pyproject.toml",
        "vllm/_custom_ops.py",
        "requirements/cuda.txt",
        "vllm/third_party/x.cpp",
    ],
)
def test_compiled_changes_forbid_other_binaries(path: str) -> None:
    facts = replace(PYTHON, changed=("vllm/a.py", path), precompiled="https://x")
    assert possible(facts) == ["source"]
    reasons = {choice.strategy: choice.reason for choice in choices(facts)}
    assert path in reasons["precompiled"] and path in reasons["patch"]


@pytest.mark.parametrize("path", ["setup.py", "rust/lib.rs"])
def test_doubtful_changes_warn(path: str) -> None:
    facts = replace(PYTHON, changed=(path,), precompiled="https://x")
    (precompiled,) = choices(facts, "precompiled")
    assert precompiled.possible and path in precompiled.reason
    assert "patch" not in possible(facts)


def test_unknown_base_and_dirty_trees_are_built() -> None:
    assert possible(replace(PYTHON, merge_base=None, changed=None)) == ["source"]
    assert possible(replace(PYTHON, dirty=True, precompiled="https://x")) == ["source"]


def test_a_forced_strategy_is_the_only_one() -> None:
    assert [c.strategy for c in choices(PYTHON, "patch")] == ["patch"]
    assert possible(PYTHON, "reuse") == []


def test_old_or_missing_compiler() -> None:
    old = {**TOOLS, "nvcc_version": "12.4"}
    assert compiler_problem(old) == (
        "nvcc 12.4 is too old for compute capability 12.0: 12.8 at least"
    )
    assert possible(replace(PYTHON, tools=old)) == ["patch"]
    assert "no CUDA compiler" in compiler_problem({})
    assert compiler_problem({**old, "capabilities": ["9.0"]}) == ""


def test_empty_needs_no_compiler() -> None:
    assert "source" in possible(replace(PYTHON, target="empty", tools={}))


def test_jobs_from_memory_and_processors() -> None:
    assert jobs("cuda", {"cpus": 64, "memory_available": 64 * GIB}) == 10
    assert jobs("cpu", {"cpus": 2, "memory_available": 64 * GIB}) == 2
    assert jobs("cuda", {"cpus": 8, "memory_available": GIB}) == 1
    assert jobs("cuda", {"cpus": 8, "memory_available": None}) == 4
    env = compile_environment("cuda", TOOLS, None)
    assert env["TORCH_CUDA_ARCH_LIST"] == "12.0" and env["MAX_JOBS"] == "10"
    assert compile_environment("cuda", TOOLS, 3)["MAX_JOBS"] == "3"
    assert "TORCH_CUDA_ARCH_LIST" not in compile_environment("cpu", TOOLS, None)


def test_urls_of_binaries() -> None:
    assert sources.precompiled_urls("https://w/", "abc", "cu129") == [
        "https://w/abc/cu129/vllm/metadata.json",
        "https://w/abc/vllm/metadata.json",
    ]
    assert sources.precompiled_urls("https://w", "abc", "auto") == [
        "https://w/abc/vllm/metadata.json"
    ]


def test_commits_and_versions() -> None:
    assert sources.commit_agrees("977180c" + "0" * 33, "g977180c") is True
    assert sources.commit_agrees("977180c" + "0" * 33, "g977180d.d20260809") is False
    assert sources.commit_agrees("977180c", None) is None
    assert sources.same_version("0.32.0", "0.32.0+cpu")
    assert not sources.same_version("0.32.0+cu130", "0.32.0+cpu")
    assert not sources.same_version("0.32.0", "0.32.1")
    for spelling in ("v0.33.0", "0.33", "V0.33 "):
        assert sources.same_version(spelling, "0.33.0+cu130")
    assert sources.same_version("0.33.0-rc1", "0.33.0rc1")
    assert not sources.same_version("0.33.0rc1", "0.33.0")
    assert not sources.same_version("0.3", "0.30.0")
    assert not sources.same_version("latest", "newest")
