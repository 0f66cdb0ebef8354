"""Which way to an environment: every strategy with the reason for or against it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployctl.vllm.builds.sources import compiled_changes, doubtful_changes

ORDER = ("reuse", "precompiled", "source", "patch")
GIB = 1 << 30
MEMORY_PER_JOB = {"cuda": 6 * GIB, "cpu": 2 * GIB, "empty": GIB}
"""Bytes a compiler may take: one nvcc of vLLM's attention kernels takes several GiB."""
NVCC_NEEDED = {"10.0": (12, 8), "10.3": (12, 9), "12.0": (12, 8), "12.1": (12, 9)}
"""The first CUDA compiler for a compute capability; older ones are known to all in use."""


@dataclass(frozen=True)
class SourceFacts:
    """What is known of a git source and of the host it is to be built on."""

    commit: str
    merge_base: str | None = None
    changed: Sequence[str] | None = None
    tag: str | None = None
    """The last release tag before the merge base."""
    kept: bool = False
    """A wheel with the same key is on the host."""
    precompiled: str | None = None
    """Where upstream publishes binaries of exactly the merge base."""
    tried: Mapping[str, Any] = field(default_factory=dict)
    """What the places answered where they could be: HTTP status or error, by URL."""
    dirty: bool = False
    target: str = "cuda"
    tools: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """One strategy: whether it may be tried, and why or why not."""

    strategy: str
    possible: bool
    reason: str


def choices(facts: SourceFacts, forced: str = "auto") -> list[Choice]:
    """Every strategy in the order in which it is tried; a forced one alone."""
    judged = {
        "reuse": _reuse(facts),
        "precompiled": _precompiled(facts),
        "source": _source(facts),
        "patch": _patch(facts),
    }
    names = ORDER if forced == "auto" else (forced,)
    return [Choice(name, *judged[name]) for name in names]


def _reuse(facts: SourceFacts) -> tuple[bool, str]:
    if facts.kept:
        return True, "a wheel of this commit and these settings is kept on the host"
    return False, "no wheel of this commit and these settings is kept on the host"


def _python_alone(facts: SourceFacts) -> str:
    """Why the change is more than Python, or is unknown; empty where it is Python alone."""
    if facts.dirty:
        return "the checkout has changes that are no commit"
    if facts.merge_base is None or facts.changed is None:
        return "the merge base with upstream is not known"
    compiled = compiled_changes(facts.changed)
    if compiled:
        return f"the change touches {_some(compiled)}"
    return ""


def _precompiled(facts: SourceFacts) -> tuple[bool, str]:
    if facts.target != "cuda":
        return False, f"upstream publishes binaries for CUDA, not for {facts.target}"
    why = _python_alone(facts)
    if why:
        return False, why
    base = str(facts.merge_base)[:12]
    if facts.precompiled is None:
        said = "; ".join(f"{url}: {answer}" for url, answer in facts.tried.items())
        return False, f"no binaries of upstream's {base} are to be had ({said or 'not asked'})"
    doubtful = doubtful_changes(facts.changed or ())
    warning = f" (it also touches {_some(doubtful)})" if doubtful else ""
    return True, f"the change is Python alone and upstream has binaries of {base}{warning}"


def _source(facts: SourceFacts) -> tuple[bool, str]:
    if facts.target == "empty":
        return True, "nothing is compiled for target empty"
    if not facts.tools.get("g++") and not facts.tools.get("gcc"):
        return False, "the host has no C++ compiler"
    if facts.target == "cuda":
        why = compiler_problem(facts.tools)
        if why:
            return False, why
    return True, "built from source"


def compiler_problem(tools: Mapping[str, Any]) -> str:
    """Why the host's CUDA compiler cannot build for its GPUs; empty where it can."""
    if not tools.get("nvcc"):
        return "the host has no CUDA compiler (nvcc)"
    version = tools.get("nvcc_version")
    if version is None:
        return "the version of the host's nvcc is not known"
    have = tuple(int(part) for part in str(version).split("."))
    for capability in tools.get("capabilities") or ():
        needed = NVCC_NEEDED.get(capability)
        if needed is not None and have < needed:
            first = ".".join(map(str, needed))
            return (
                f"nvcc {version} is too old for compute capability {capability}: {first} at least"
            )
    return ""


def _patch(facts: SourceFacts) -> tuple[bool, str]:
    why = _python_alone(facts)
    if why:
        return False, why
    doubtful = doubtful_changes(facts.changed or ())
    if doubtful:
        return False, f"the change touches {_some(doubtful)}"
    if facts.tag is None:
        return False, "no release tag lies before the merge base"
    return True, f"the change is Python alone and is applied to release {facts.tag}"


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def compile_environment(
    target: str, tools: Mapping[str, Any], max_jobs: int | None
) -> dict[str, str]:
    """Variables of vLLM's build: jobs from memory and processors, the host's GPUs only, the
    dependencies that CMake fetches shared between builds."""
    env = {
        "VLLM_TARGET_DEVICE": target,
        "MAX_JOBS": str(max_jobs or jobs(target, tools)),
        "FETCHCONTENT_BASE_DIR": "@/builds/dependencies",
    }
    if target == "cuda":
        # ninja's pool is MAX_JOBS / NVCC_THREADS, and one architecture needs one thread.
        env["NVCC_THREADS"] = "1"
        capabilities = tools.get("capabilities")
        if capabilities:
            env["TORCH_CUDA_ARCH_LIST"] = ";".join(capabilities)
    return env


def jobs(target: str, tools: Mapping[str, Any]) -> int:
    """How many compilers the free memory (bytes) and the processors bear."""
    cpus = int(tools.get("cpus") or 1)
    memory = tools.get("memory_available")
    if memory is None:
        return max(1, cpus // 2)
    return max(1, min(cpus, int(memory) // MEMORY_PER_JOB[target]))
