"""What a change to vLLM's sources touches, and what follows for building it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

# What upstream's own setup.py takes for compiled code, and requirements, whose change needs a
# resolution of its own.
_BLOCKING_PREFIXES = ("csrc/", "cmake/", "requirements/")
_BLOCKING_FILES = ("CMakeLists.txt", "pyproject.toml", "vllm/_custom_ops.py")
_COMPILED = (".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".pyx", ".so")
# Not part of the extensions today; worth a word where they change.
_DOUBTFUL_PREFIXES = ("rust/",)
_DOUBTFUL_FILES = ("setup.py",)


def compiled_changes(paths: Iterable[str]) -> list[str]:
    """Changed paths that forbid binaries of another commit."""
    return [
        path
        for path in paths
        if path.startswith(_BLOCKING_PREFIXES)
        or path in _BLOCKING_FILES
        or (path.startswith("vllm/") and path.endswith(_COMPILED))
    ]


def doubtful_changes(paths: Iterable[str]) -> list[str]:
    """Changed paths that may matter to the binaries: a warning."""
    return [p for p in paths if p.startswith(_DOUBTFUL_PREFIXES) or p in _DOUBTFUL_FILES]


def precompiled_urls(index: str, commit: str, torch_backend: str | None) -> list[str]:
    """Where the wheel metadata of exactly this commit is published, best first.

    Format: wheels.vllm.ai/<commit>[/<variant>]/vllm/metadata.json
    """
    base = f"{index.rstrip('/')}/{commit}"
    variants = [torch_backend] if torch_backend and torch_backend.startswith("cu") else []
    return [*(f"{base}/{v}/vllm/metadata.json" for v in variants), f"{base}/vllm/metadata.json"]


def commit_agrees(commit: str, told: str | None) -> bool | None:
    """Whether an abbreviated commit (`g977180c`, as setuptools-scm writes it) is this one; None
    where none is given.
    """
    if not told:
        return None
    return commit.startswith(told.removeprefix("g").split(".")[0])


def same_version(wanted: str, found: str) -> bool:
    """Equal as installers compare (v0.32 is 0.32.0, 0.33.0-rc1 is 0.33.0rc1), up to the local
    part unless the wanted one names it: 0.32.0 is 0.32.0+cpu."""
    (public, local), (found_public, found_local) = (
        text.strip().lower().partition("+")[::2] for text in (wanted, found)
    )
    return _normal(public) == _normal(found_public) and local in ("", found_local)


def _normal(public: str) -> tuple[list[int], str]:
    """A public version's numbers without zeros at the end, and what follows them."""
    parts = re.fullmatch(r"v?((?:\d{1,18}\.)*\d{1,18})(.*)", public)
    if parts is None:
        return [], public
    numbers = [int(number) for number in parts[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers, re.sub(r"[-_.]", "", parts[2])
