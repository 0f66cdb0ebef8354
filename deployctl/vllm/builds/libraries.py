"""Shared libraries of the system that vLLM and torch load, and the packages that have them. Pure.

The names are those of packages.debian.org, packages.fedoraproject.org (NVIDIA's: RPM Fusion) and
archlinux.org/packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NUMA, OPENMP, CUDA = "libnuma.so.1", "libgomp.so.1", "libcuda.so.1"

PACKAGES: Mapping[str, tuple[str, str, str]] = {
    NUMA: ("libnuma1", "numactl-libs", "numactl"),
    OPENMP: ("libgomp1", "libgomp", "gcc-libs"),
    CUDA: ("libcuda1", "xorg-x11-drv-nvidia-cuda-libs", "nvidia-utils"),
    "libnvidia-ml.so.1": ("libnvidia-ml1", "xorg-x11-drv-nvidia-cuda-libs", "nvidia-utils"),
    "libstdc++.so.6": ("libstdc++6", "libstdc++", "gcc-libs"),
    "libgcc_s.so.1": ("libgcc-s1", "libgcc", "gcc-libs"),
    "libatomic.so.1": ("libatomic1", "libatomic", "gcc-libs"),
    "libgfortran.so.5": ("libgfortran5", "libgfortran", "gcc-libs"),
    "libquadmath.so.0": ("libquadmath0", "libquadmath", "gcc-libs"),
    "libz.so.1": ("zlib1g", "zlib-ng-compat", "zlib"),
    "libcrypt.so.1": ("libcrypt1", "libxcrypt-compat", "libxcrypt-compat"),
    "libffi.so.8": ("libffi8", "libffi", "libffi"),
    "libssl.so.3": ("libssl3", "openssl-libs", "openssl"),
    "libcrypto.so.3": ("libssl3", "openssl-libs", "openssl"),
    "libibverbs.so.1": ("libibverbs1", "libibverbs", "rdma-core"),
    "librdmacm.so.1": ("librdmacm1", "librdmacm", "rdma-core"),
    "libmlx5.so.1": ("ibverbs-providers", "libibverbs", "rdma-core"),
    "libtbb.so.12": ("libtbb12", "tbb", "onetbb"),
    "libdnnl.so.3": ("libdnnl3", "onednn", "onednn"),
    "libopenblas.so.0": ("libopenblas0", "openblas", "openblas"),
    "libtcmalloc_minimal.so.4": ("libtcmalloc-minimal4", "gperftools-libs", "gperftools"),
    "libjemalloc.so.2": ("libjemalloc2", "jemalloc", "jemalloc"),
    "libmpi.so.40": ("libopenmpi3", "openmpi", "openmpi"),
    "libGL.so.1": ("libgl1", "libglvnd-glx", "libglvnd"),
    "libglib-2.0.so.0": ("libglib2.0-0", "glib2", "glib2"),
    "libgthread-2.0.so.0": ("libglib2.0-0", "glib2", "glib2"),
    "libsndfile.so.1": ("libsndfile1", "libsndfile", "libsndfile"),
}
"""By soname: the package in Debian 12, in Fedora and in Arch Linux."""

_OF_TORCH = re.compile(
    r"lib(torch|c10|cudart|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvrtc|"
    r"nvJitLink|nvshmem|cufile|nvToolsExt)\w*\.so"
)
"""Libraries that torch and NVIDIA's wheels bring, which belong to no package of the system."""

# glibc and musl; a name may be a path.
_LACKING = re.compile(
    r"(\S+): cannot open shared object file|Error loading shared library (\S+?):? "
)


def lacking(error: str) -> str | None:
    """The soname of the library that a loader's error says is not there; None for another error."""
    found = _LACKING.search(error)
    if found is None:
        return None
    name: str = (found[1] or found[2]).rpartition("/")[2]
    return name


def where(library: str) -> str:
    """Where a library comes from, as an imperative: its packages, or how to look for them."""
    if library in PACKAGES:
        debian, fedora, arch = PACKAGES[library]
        return f"install {debian} (Debian, Ubuntu), {fedora} (Fedora) or {arch} (Arch)"
    if _OF_TORCH.match(library):
        return f"{library} comes with torch's wheels: set build.torch_backend to the one wanted"
    look = f"apt-file search {library} (Debian), dnf provides '*/{library}' (Fedora)"
    return f"find the package of {library}: {look} or pacman -F {library} (Arch)"


def lacked(problems: Iterable[str]) -> dict[str, str]:
    """The libraries that these problems are about, each with where it comes from; empty where a
    single one is about something else."""
    found = [lacking(problem) for problem in problems]
    names = sorted({name for name in found if name is not None and not _OF_TORCH.match(name)})
    if None in found or len(names) < len({*found}):
        return {}
    return {name: where(name) for name in names}
