"""Driver, toolkit and compute capability against the torch that is to be built. Pure.

Reported before the build, which takes an hour and would end in a server that does not start.
"""

from __future__ import annotations

from collections.abc import Iterator

from deployctl.steps.facts import TOOLS
from deployctl.steps.gpus import profile_gpus
from deployctl.steps.gpus.finding import Finding
from deployctl.steps.interface import Answers, Deployment, Unanswered
from deployctl.vllm.builds import cuda_versions
from deployctl.vllm.builds.cuda_versions import Misfit


def findings(wanted: Deployment, answers: Answers, module: str | None) -> Iterator[Finding]:
    """What `build.torch_backend` needs against what the host has; what is not known is not judged
    here: `gpus` and `tools` say so."""
    try:
        gpus = profile_gpus.profile_gpus(wanted, answers)
    except Unanswered:
        gpus = []
    rows = {gpu["index"]: gpu["driver"] for gpu in gpus}
    yield from _rows(rows, module)
    backend = wanted.profile.build.torch_backend
    if cuda_versions.cuda_of(backend) is None:
        return
    driver = module or next((row for row in rows.values() if row), None)
    yield _finding("backend driver", cuda_versions.driver(backend, driver), driver, backend)
    for capability in sorted({cap for gpu in gpus if (cap := gpu["compute_cap"])}):
        misfit = cuda_versions.capability(backend, capability)
        yield _finding("backend capability", misfit, capability, backend)
    tools = answers.get(TOOLS)
    nvcc = tools and tools["nvcc_version"]
    source = wanted.profile.build.source
    compiled = source.release is None and source.wheel is None
    if nvcc and compiled:
        certain = wanted.profile.build.strategy == "source"
        misfit = cuda_versions.toolkit(backend, nvcc, certain)
        yield _finding("backend toolkit", misfit, nvcc, backend)


def _rows(rows: dict[int, str | None], module: str | None) -> Iterator[Finding]:
    """The driver that nvidia-smi names for each GPU against the kernel's module."""
    for index, row in rows.items():
        if row is None or module is None:
            continue
        check = f"driver of GPU {index}"
        if row == module:
            yield Finding(check, "ok", row, module)
        else:
            say = (
                f"nvidia-smi names driver {row} for GPU {index}, the kernel module is {module}: "
                "reboot after a driver update, or give the container the node's version"
            )
            yield Finding(check, "failed", row, module, say, "host")


def _finding(
    check: str, misfit: Misfit | None, measured: str | None, backend: str | None
) -> Finding:
    if misfit is not None:
        return Finding(check, misfit.verdict, misfit.measured, misfit.needed, misfit.say, "profile")
    if measured is None:
        say = f"no driver version is known to compare with {backend}"
        return Finding(check, "warning", None, backend, say)
    return Finding(check, "ok", measured, backend)
