"""Torch backends against drivers, GPUs and toolkits: NVIDIA's and PyTorch's tables."""

from __future__ import annotations

import pytest

from deployctl.vllm.builds import cuda_versions as cuda


@pytest.mark.parametrize(
    ("backend", "driver", "verdict"),
    [
        ("cu130", "580.95.05", None),
        ("cu130", "580.65.06", None),
        ("cu130", "570.86.10", "failed"),
        ("cu130", "535.104", "failed"),
        ("cu128", "570.86.10", None),
        ("cu129", "570.86.10", "warning"),
        ("cu128", "535.104.05", "warning"),
        ("cu128", "525.60.12", "failed"),
        ("cu126", "470.86", "failed"),
        ("cu118", "470.86", "warning"),
        ("cu131", "580.95.05", "warning"),
        ("cu131", "590.44.01", None),
        ("cu132", "580.95.05", None),
        ("cu132", "575.51.03", "failed"),
        ("cpu", "470.86", None),
        ("auto", "470.86", None),
        (None, "470.86", None),
        ("cu130", None, None),
        ("cu130", "[N/A]", None),
    ],
)
def test_drivers(backend: str | None, driver: str | None, verdict: str | None) -> None:
    misfit = cuda.driver(backend, driver)
    assert (misfit and misfit.verdict) == verdict


def test_a_lower_backend_is_named() -> None:
    misfit = cuda.driver("cu130", "570.86.10")
    assert misfit is not None and "lower build.torch_backend (cu129)" in misfit.say
    assert "580 or newer" in misfit.say


@pytest.mark.parametrize(
    ("backend", "capability", "fits"),
    [
        ("cu126", "9.0", True),
        ("cu126", "8.9", True),
        ("cu126", "12.0", False),
        ("cu126", "10.0", False),
        ("cu128", "12.0", True),
        ("cu128", "12.1", True),
        ("cu128", "6.1", False),
        ("cu126", "6.1", True),
        ("cu130", "7.0", False),
        ("cu130", "7.5", True),
        ("cu130", "13.0", True),
        ("cu130", "11.0", True),
        ("cu128", "11.0", False),
        ("cu118", "3.7", True),
        ("cu121", "3.7", False),
        ("cu132", "7.0", True),
        ("cu999", "7.0", True),
        ("cu130", None, True),
    ],
)
def test_compute_capabilities(backend: str, capability: str | None, fits: bool) -> None:
    assert (cuda.capability(backend, capability) is None) is fits


def test_a_backend_that_has_the_gpu_is_named() -> None:
    misfit = cuda.capability("cu126", "12.0")
    assert misfit is not None and "build.torch_backend cu130" in misfit.say
    old = cuda.capability("cu130", "6.1")
    assert old is not None and "build.torch_backend cu126" in old.say


def test_toolkits() -> None:
    assert cuda.toolkit("cu130", "13.0", True) is None
    assert cuda.toolkit("cu129", "12.4", True) is None
    wrong = cuda.toolkit("cu130", "12.8", True)
    assert wrong is not None and wrong.verdict == "failed"
    maybe = cuda.toolkit("cu130", "12.8", False)
    assert maybe is not None and maybe.verdict == "warning"
    assert cuda.toolkit("cpu", "12.8", True) is None and cuda.toolkit("cu130", None, True) is None
