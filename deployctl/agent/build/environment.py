"""What a host offers for building, and what an environment on it really holds."""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, List, Optional

from ..core import memory, programs
from ..core.interface import Call
from ..wire.builds import Tools
from .build_user import build_user as build_user
from .installed import builders as builders
from .installed import complete as complete
from .installed import imports as imports
from .reach import reaches as reaches
from .sources import first_found as first_found
from .sources import resolve_source as resolve_source
from .sources import same_tree as same_tree
from .sources import source_facts as source_facts
from .wheel_store import prune_wheels as prune_wheels
from .wheel_store import wheels as wheels

_LIBRARIES = ("libgomp.so.1", "libnuma.so.1")
_PYTHONS = re.compile(r"python3\.\d+")


def tools(call: Call) -> Tools:
    """Programs (path or None), Pythons by version, processors, memory in bytes, C library, shared
    libraries (whether each is there) and GPU architectures. `capabilities` is None where a driver
    is there and does not say."""
    uv = _uv(call)
    nvcc = _program(call, "nvcc")
    return {
        "git": _program(call, "git"),
        "cc": _program(call, "cc"),
        "gcc": _program(call, "gcc"),
        "clang": _program(call, "clang"),
        "g++": _program(call, "g++"),
        "cmake": _program(call, "cmake"),
        "ninja": _program(call, "ninja"),
        "ccache": _program(call, "ccache"),
        "sccache": _program(call, "sccache"),
        "nvcc": nvcc,
        "uv": uv,
        "uv_version": _uv_version(call, uv),
        "pythons": _pythons(call),
        "cpus": _cpus(),
        "memory_available": memory.available(),
        "machine": os.uname().machine,
        "libc": _libc(),
        "libraries": _libraries(),
        "capabilities": _capabilities(call),
        "nvcc_version": _nvcc_version(call, nvcc),
    }


def _program(call: Call, name: str) -> Optional[str]:
    found = programs.find(call, name)
    if found is None and name == "nvcc" and os.access("/usr/local/cuda/bin/nvcc", os.X_OK):
        return "/usr/local/cuda/bin/nvcc"
    return found


def _uv(call: Call) -> Optional[str]:
    """uv on the PATH, where its installers put it, beside our Python, or the one sent by us.

    A shim (pyenv, asdf, mise: a script in a folder `shims`) needs its owner's home, which a build
    user does not see: it comes last.
    """
    path = call.environment()["PATH"].split(os.pathsep)
    places = (
        *(os.path.join(place, "uv") for place in path if os.path.isabs(place)),
        "~/.local/bin/uv",
        "~/.cargo/bin/uv",
        os.path.join(os.path.dirname(sys.executable), "uv"),
        "@/tools/uv",
    )
    found = [
        one for one in map(call.path, places) if os.path.isfile(one) and os.access(one, os.X_OK)
    ]
    return min(
        found, key=lambda one: os.path.basename(os.path.dirname(one)) == "shims", default=None
    )


def _uv_version(call: Call, uv: Optional[str]) -> Optional[str]:
    if uv is None:
        return None
    answer = programs.ask(call, [uv, "--version"], 10)
    words = answer.stdout.split()
    return words[1] if answer.status == 0 and len(words) > 1 else None


def _pythons(call: Call) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for place in call.environment()["PATH"].split(os.pathsep):
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue  # not there, or not ours to look into
        for name in names:
            if _PYTHONS.fullmatch(name):
                found.setdefault(name[len("python") :], os.path.join(place, name))
    return found


def _libraries() -> Dict[str, Optional[bool]]:
    """Whether the loader finds each; None where this Python cannot ask it."""
    try:
        import ctypes
    except ImportError:
        return dict.fromkeys(_LIBRARIES)
    found: Dict[str, Optional[bool]] = {}
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(name)
            found[name] = True
        except OSError:
            found[name] = False
    return found


def _libc() -> str:
    try:
        named = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        named = ""  # another one than glibc
    if named:
        return named.replace(" ", "-")

    return _libc()


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _capabilities(call: Call) -> Optional[List[str]]:
    """Compute capabilities of the GPUs here (`12.0`), [] where there is no driver."""
    smi = programs.find(call, "nvidia-smi")
    if smi is None:
        return None if os.path.exists("/proc/driver/nvidia/version") else []
    argv = [smi, "--query-gpu=compute_cap", "--format=csv,noheader"]
    answer = programs.ask(call, argv, 20)
    lines = [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    if answer.status != 0 or not all(re.fullmatch(r"\d+\.\d+", line) for line in lines):
        return None
    return sorted(set(lines))


def _nvcc_version(call: Call, nvcc: Optional[str]) -> Optional[str]:
    if nvcc is None:
        return None
    match = re.search(r"release (\d+\.\d+)", programs.ask(call, [nvcc, "--version"], 20).stdout)
    return match.group(1) if match else None


OPERATIONS = (
    tools,
    build_user,
    complete,
    imports,
    builders,
    resolve_source,
    source_facts,
    same_tree,
    first_found,
    reaches,
    wheels,
    prune_wheels,
)
