"""A failed build's log: the first error's lines, and the known kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.vllm.logs.build import explain

CASES = Path(__file__).parents[3] / "cases" / "build"
KINDS = {
    "compile-error.log": "compile-error",
    "no-space.log": "no-space",
    "out-of-memory.log": "out-of-memory",
    "no-ref.log": "no-ref",
    "no-network.log": "no-network",
    "old-nvcc.log": "compiler-too-old",
    "no-python.log": "no-python",
    "no-python-download.log": "no-python",
    "no-solution.log": "no-solution",
    "undefined-symbol.log": "undefined-symbol",
    "nightly.log": "wrong-binaries",
    "stumbled-network.log": "compile-error",
}


@pytest.mark.parametrize("name", KINDS)
def test_known_kinds(name: str) -> None:
    assert explain((CASES / name).read_text()).cause == KINDS[name]


def test_every_case_is_listed() -> None:
    assert {path.name for path in CASES.glob("*.log")} == set(KINDS)


def test_first_error_not_the_last_lines() -> None:
    found = explain((CASES / "compile-error.log").read_text())
    assert any("csrc/quant.cu(17): error" in line for line in found.lines)
    assert not any("warning 499" in line for line in found.lines)


def test_only_the_last_command_counts() -> None:
    log = "$ fetch\nfatal: Could not resolve host: x\n$ build\n"
    assert explain(log).cause == ""


def test_a_key_that_changed_is_no_matter_of_credentials() -> None:
    log = (
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
        "Host key verification failed.\n"
        "fatal: Could not read from remote repository.\n"
    )
    assert explain(log).cause == "host-key"
    assert explain("fatal: Could not read from remote repository.\n").cause == "access"


def test_anything_at_all() -> None:
    for text in ("", "\n", "$ x", "\x1b[31merror\x1b[0m", "é" * 10):
        assert explain(text).sentence
