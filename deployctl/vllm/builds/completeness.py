"""Whether an installed vLLM is whole: a judgement of facts that were read on the host. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

# Any one of a group is enough: the stable-ABI build replaced the other from 0.2x on.
# RECORD lists only what was built, so this is what shows a build without its kernels.
CORE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "cuda": (
        ("_C", "_C_stable_libtorch"),
        ("_moe_C", "_moe_C_stable_libtorch"),
        ("cumem_allocator",),
        ("_vllm_fa2_C", "vllm_flash_attn/_vllm_fa2_C"),
    ),
    "cpu": (("_C", "_C_AVX2", "_C_AVX512"),),
    "empty": (),
}

OTHER_PROCESSOR = f"the import ended by signal {signal.SIGILL.value}"
"""How a child ends that runs an instruction which this processor lacks."""


def module_name(path: str) -> str:
    """`vllm/_C.abi3.so` as an import name: `vllm._C`."""
    directory, _, file = path.rpartition("/")
    return ".".join([*directory.split("/"), file.split(".", 1)[0]]).lstrip(".")


Found = TypeVar("Found", bound=Mapping[str, Any])
"""A distribution of an environment, as the agent describes it."""


def provider(providers: Sequence[Found], shim: str) -> Found | None:
    """The distribution that really provides vllm; None where there is not exactly one.

    `shim` is the installer's name of a dist-info that only lends the name.
    """
    real = [found for found in providers if found["installer"] != shim]
    return real[0] if len(real) == 1 else None


def record_problems(facts: Mapping[str, Any], shim: str) -> list[str]:
    """What is wrong with an environment's records, in sentences; [] where nothing is."""
    real = [found for found in facts["providers"] if found["installer"] != shim]
    if len(real) != 1:
        names = ", ".join(f"{found['name']} {found['version']}" for found in real) or "none"
        return [f"exactly one distribution must provide vllm, found: {names}"]
    problems = []
    if real[0]["installer"] is None:
        problems.append(f"{real[0]['dist_info']} has no INSTALLER: its install was cut off")
    count = facts["problem_count"]
    if count:
        problems += facts["problems"]
        if count > len(facts["problems"]):
            problems.append(f"and {count - len(facts['problems'])} more")
    return [*problems, *(text for own, text in _inherited(facts, real[0]) if own)]


def inherited(facts: Mapping[str, Any], shim: str) -> list[str]:
    """What somebody changed in the base of an in-place environment, of distributions that are
    neither vLLM's nor what it requires itself: a warning."""
    real = provider(facts["providers"], shim)
    return [text for own, text in _inherited(facts, real or {}) if not own]


def _inherited(facts: Mapping[str, Any], real: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """What was so in the base already, with whether it is vLLM's own or what it requires."""
    own = {_normal(str(real.get("name"))), *real.get("needs", ())}
    return [
        (_normal(found["name"]) in own, f"{found['name']}: {found['text']}, in its base already")
        for found in facts.get("inherited", ())
    ]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def missing_extensions(paths: Iterable[str], target: str) -> list[str]:
    """Compiled modules that a build for `target` must have and has not."""
    have = {module_name(path).removeprefix("vllm.").replace(".", "/") for path in paths}
    return [" or ".join(group) for group in CORE[target] if not have.intersection(group)]


def import_problems(imports: Mapping[str, Any], target: str) -> list[str]:
    """Errors of importing, of the core modules only; others are reported, not judged.

    A variant for another processor (vLLM's CPU build brings one for AVX-512 and one for AVX2, and
    loads the one that fits) ends by SIGILL: no problem while another variant of it imports.
    """
    problems = []
    if target != "empty" and imports["torch"] is None:
        problems.append(f"torch does not import: {imports['torch_error']}")
    tried = {
        name.removeprefix("vllm.").replace(".", "/"): (name, error)
        for name, error in imports["extensions"].items()
    }
    for group in CORE[target]:
        variants = [tried[name] for name in group if name in tried]
        usable = any(error is None for _, error in variants)
        problems += [
            f"{name} does not import: {error}"
            for name, error in variants
            if error is not None and not (usable and error == OTHER_PROCESSOR)
        ]
    return sorted(problems)


RAY = "ray._raylet"
"""The compiled module of Ray."""


def ray_problems(distributions: Sequence[Mapping[str, Any]], version: str) -> list[str]:
    """What is wrong with the Ray that was installed beside vLLM, before it is imported."""
    found = [one["version"] for one in distributions if one["name"].lower() == "ray"]
    if version in found:
        return []
    return [f"ray {version} was asked for, and {', '.join(found) or 'none'} is installed"]


def ray_import_problems(imports: Mapping[str, Any]) -> list[str]:
    """Why Ray cannot be imported; [] where it can."""
    error = imports["extensions"].get(RAY, "it was not tried")
    return [] if error is None else [f"{RAY} does not import: {error}"]


def torch_problems(
    torch: Mapping[str, Any] | None, target: str, capabilities: Sequence[str] | None
) -> list[str]:
    """Whether torch is a build for the target, and has code for the host's GPUs.

    Binary code runs on a GPU of the same major capability and at least its minor one; PTX
    (`compute_90`) on every GPU from its capability on.
    """
    if torch is None or target != "cuda":
        return []
    if torch["cuda"] is None:
        return [f"torch {torch['version']} is a CPU build; set build.torch_backend (cu130)"]
    unmet = [c for c in capabilities or () if not _runs_on(torch["architectures"], c)]
    have = " ".join(torch["architectures"])
    return [
        f"torch {torch['version']} has no code for compute capability {capability}, only {have}"
        for capability in unmet
    ]


def _runs_on(architectures: Sequence[str], capability: str) -> bool:
    major, minor = (int(part) for part in capability.split("."))
    for architecture in architectures:
        kind, _, number = architecture.partition("_")
        digits = "".join(c for c in number if c.isdigit())
        if len(digits) < 2:
            continue
        have = (int(digits[:-1]), int(digits[-1]))
        same = have[0] == major and have[1] <= minor
        if (kind == "sm" and same) or (kind == "compute" and have <= (major, minor)):
            return True
    return False
