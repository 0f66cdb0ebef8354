"""Which driver, toolkit and GPU a torch backend (cu130) needs. Pure; versions as tuples of numbers.

Each table names its source. What is in none of them is not known, and it is left out. Code
for one architecture runs on GPUs of the same major capability and
the same or a higher minor one; `+PTX` code also on later ones (CUDA C++ Programming Guide).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Version = tuple[int, ...]

DRIVERS: dict[int, Version] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}
"""The oldest driver for any toolkit of a CUDA major version.

From "minor version compatibility" of NVIDIA's CUDA Compatibility guide (450.80.02 by its note; 525,
of which CUDA 12.0 brought 525.60.13 first; 580), and uv's crates/uv-torch/src/backend.rs.
"""
FULL: tuple[tuple[Version, Version], ...] = (
    ((11, 8), (520, 61, 5)),
    ((12, 0), (525, 60, 13)),
    ((12, 1), (530, 30, 2)),
    ((12, 2), (535, 54, 3)),
    ((12, 3), (545, 23, 6)),
    ((12, 4), (550, 54, 14)),
    ((12, 5), (555, 42, 2)),
    ((12, 6), (560, 28, 3)),
    ((12, 8), (570, 26)),
    ((12, 9), (575, 51, 3)),
    ((13, 0), (580, 65, 6)),
    ((13, 1), (590, 44, 1)),
)
"""The driver that came with a toolkit: from it on, code compiled at run time (PTX) runs too.

From "CUDA Toolkit and Corresponding Driver Versions" of NVIDIA's CUDA 13.1 release notes: Linux,
each toolkit's first release.
"""
ARCHITECTURES: dict[str, tuple[tuple[Version, ...], bool]] = {
    "cu118": (((3, 7), (5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)), False),
    "cu121": (((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)), False),
    "cu124": (((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)), False),
    "cu126": (((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0)), False),
    "cu128": (((7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)), False),
    "cu129": (((7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)), True),
    "cu130": (((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (11, 0), (12, 0)), True),
}
"""Architectures of torch's wheels, by backend, and whether the last is there as PTX too.

What any release of torch had: later ones dropped some (7.0 of cu128 with torch 2.11), and the
torch that will be installed is not known here. cu118: pytorch/builder, manywheel/build_cuda.sh.
cu121, cu124: what wheels of torch 2.1.0, 2.2.0 and 2.4.1 print as theirs (get_arch_list, and the
warning about a GPU that they lack). cu126, cu128, cu130: "PyTorch CUDA Support Matrix" in
pytorch's RELEASE.md; its 11.0 is in wheels for aarch64 alone, and so are the GPUs. cu129:
pytorch's .ci/manywheel/build_cuda.sh.
"""


@dataclass(frozen=True)
class Misfit:
    """Something that does not fit, as a sentence with what to do."""

    what: Literal["driver", "capability", "toolkit"]
    verdict: Literal["failed", "warning"]
    measured: str
    needed: str
    say: str


def cuda_of(backend: str | None) -> Version | None:
    """The CUDA version of a torch backend: (13, 0) for cu130; None for others (cpu, auto)."""
    found = re.fullmatch(r"cu(\d{2})(\d)", backend or "")
    return (int(found[1]), int(found[2])) if found else None


def version(text: str | None) -> Version | None:
    """A version's numbers; None where it is not known or not as expected."""
    found = re.fullmatch(r"\d{1,6}(?:\.\d{1,6}){0,3}", text or "")
    return tuple(int(part) for part in found[0].split(".")) if found else None


def driver(backend: str | None, installed: str | None) -> Misfit | None:
    """What is wrong between a backend and the driver."""
    wanted, have = cuda_of(backend), version(installed)
    if wanted is None or have is None:
        return None
    least = DRIVERS.get(wanted[0])
    if least is not None and have < least:
        say = (
            f"driver {installed} is too old for {backend}, which needs {shown(least)} or newer: "
            f"choose a lower build.torch_backend{_suggested(have)}, or install a newer driver"
        )
        return Misfit("driver", "failed", str(installed), shown(least), say)
    full = next((needed for cuda, needed in FULL if cuda == wanted), None)
    if full is not None and have < full:
        say = (
            f"driver {installed} is older than CUDA {shown(wanted)} of {backend}: compiled code "
            f"runs, code compiled at the start may not; {shown(full)} or newer runs all"
        )
        return Misfit("driver", "warning", str(installed), shown(full), say)
    return None


def capability(backend: str | None, of_gpu: str | None) -> Misfit | None:
    """What is wrong between a backend's wheels and a GPU's compute capability."""
    known, have = ARCHITECTURES.get(backend or ""), version(of_gpu)
    if known is None or have is None or len(have) != 2:
        return None
    architectures, ptx = known
    if _covers(architectures, ptx, have):
        return None
    listed = ", ".join(map(shown, architectures))
    others = [name for name, each in ARCHITECTURES.items() if _covers(*each, have)]
    other = f"choose build.torch_backend {others[-1]}" if others else "build torch from source"
    say = (
        f"torch's {backend} wheels hold no code for compute capability {of_gpu} ({listed}): {other}"
    )
    return Misfit("capability", "failed", str(of_gpu), listed, say)


def _covers(architectures: tuple[Version, ...], ptx: bool, have: Version) -> bool:
    compiled = any(a[0] == have[0] and a <= have for a in architectures)
    return compiled or (ptx and have > architectures[-1])


def toolkit(backend: str | None, nvcc: str | None, certain: bool) -> Misfit | None:
    """What is wrong between a backend and the toolkit that compiles beside it; `certain` says that
    something will be compiled."""
    wanted, have = cuda_of(backend), version(nvcc)
    if wanted is None or have is None or have[0] == wanted[0]:
        return None
    say = (
        f"the host's CUDA toolkit is {nvcc}, {backend} is CUDA {shown(wanted)}: what is built from "
        "source would not load beside torch; set CUDA_HOME in build.env to a toolkit of that major "
        "version"
    )
    verdict: Literal["failed", "warning"] = "failed" if certain else "warning"
    return Misfit("toolkit", verdict, str(nvcc), f"{wanted[0]}.x", say)


def shown(numbers: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, numbers))


def _suggested(have: Version) -> str:
    best = [name for name in _newest_first() if _runs(name, have)]
    return f" ({best[0]})" if best else ""


def _newest_first() -> Iterator[str]:
    return reversed(ARCHITECTURES)


def _runs(backend: str, have: Version) -> bool:
    wanted = cuda_of(backend)
    return wanted is not None and wanted[0] in DRIVERS and have >= DRIVERS[wanted[0]]
