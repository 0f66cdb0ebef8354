"""Libraries that a host lacks: known by what a loader says, with the packages that have them."""

from __future__ import annotations

import ctypes

import pytest

from deployctl.vllm.builds.libraries import PACKAGES, lacked, lacking, where

NUMA = "libnuma.so.1: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (NUMA, "libnuma.so.1"),
        (f"vllm._C does not import: ImportError: {NUMA}", "libnuma.so.1"),
        (f"OSError: /opt/lib/{NUMA}", "libnuma.so.1"),
        ("libX.so.3: cannot open shared object file: Permission denied", "libX.so.3"),
        (
            "Error loading shared library libgomp.so.1: No such file (needed by /x/_C.so)",
            "libgomp.so.1",
        ),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/_C.so)", None),
        ("ImportError: /x/_C.so: undefined symbol: _ZN5torch", None),
        ("", None),
    ],
)
def test_what_a_loader_says(error: str, name: str | None) -> None:
    assert lacking(error) == name


def test_this_machines_own_loader() -> None:
    with pytest.raises(OSError) as failed:
        ctypes.CDLL("libthere-is-none.so.7")
    assert lacking(str(failed.value)) == "libthere-is-none.so.7"


def test_where_it_comes_from() -> None:
    assert where("libnuma.so.1") == (
        "install libnuma1 (Debian, Ubuntu), numactl-libs (Fedora) or numactl (Arch)"
    )
    assert "set build.torch_backend" in where("libcudart.so.13")
    for words in ("apt-file search libodd.so.2", "'*/libodd.so.2'", "pacman -F libodd.so.2"):
        assert words in where("libodd.so.2")
    assert all(len(names) == 3 and all(names) for names in PACKAGES.values())


def test_only_where_nothing_else_is_wrong_the_host_alone_is_to_blame() -> None:
    assert list(lacked([NUMA, NUMA.replace("numa", "odd")])) == ["libnuma.so.1", "libodd.so.1"]
    assert lacked([NUMA, "vllm: x is missing"]) == {}
    torch = "libtorch_cpu.so: cannot open shared object file: No such file or directory"
    assert lacked([torch]) == {}, "the environment lacks it, not the host"
    assert lacked([NUMA, torch]) == {}
    assert lacked([]) == {}
