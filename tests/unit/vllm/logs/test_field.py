"""Logs of public reports: what ended them, and what stands first as evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.vllm.logs import kinds

FIELD = Path(__file__).parents[3] / "cases" / "field"
SINKS = "AssertionError: FlashInfer backend currently does not support attention sinks"

# file, kind, cause, a part of the sentence, of the next step, of the first line of evidence
CASES = [
    ("01-double-prefix/a-double", "server", "gpu-memory-profiling", "", "", "OutOfMemoryError"),
    ("01-double-prefix/a2-double-unknown", "server", "", "", "", SINKS),
    ("01-double-prefix/b-ansi", "server", "", "", "", SINKS),
    ("01-double-prefix/c-rank0", "server", "", "", "", SINKS),
    (
        "01-double-prefix/i-flashinfer-nvcc",
        "server",
        "no-nvcc",
        "begins with a colon",
        "CUDA_HOME in serve.env",
        ":/usr/local/cuda-12.8/bin/nvcc: not found",
    ),
    (
        "04-oom-after-capture/g-sampler-oom",
        "server",
        "gpu-memory-sampler",
        "1024 dummy requests",
        "max-num-seqs",
        "when warming up sampler",
    ),
    (
        "04-oom-after-capture/g2-runtime-oom",
        "server",
        "gpu-memory-serving",
        "while serving",
        "",
        "OutOfMemoryError",
    ),
    ("05-shm-nccl/f-nccl-attach", "server", "shared-memory-segment", "", "", "No such file"),
    ("05-shm-nccl/f4-attach-dist", "server", "shared-memory-segment", "", "", "No such file"),
    (
        "05-shm-nccl/f2-nccl-distbackend",
        "server",
        "shared-memory",
        "9637892",
        "larger /dev/shm",
        "No space left",
    ),
    (
        "05-shm-nccl/f3-nccl-shm-full-pynccl",
        "server",
        "shared-memory",
        "33030532",
        "larger /dev/shm",
        "No space left",
    ),
    ("06-driver-too-old/d-oldprefix", "server", "forward-compatibility", "804", "cuda-compat", ""),
    ("06-driver-too-old/d2-804-new", "server", "forward-compatibility", "804", "cuda-compat", ""),
    (
        "06-driver-too-old/e-toolold",
        "server",
        "driver-too-old",
        "CUDA 12.8",
        "lower build.torch_backend",
        "is too old",
    ),
    ("08-killed-nvcc/b-killed", "build", "out-of-memory", "SIGKILL", "build.max_jobs", "Killed"),
    ("08-killed-nvcc/b2-killed137", "build", "out-of-memory", "", "build.max_jobs", "code=137"),
    ("09-untrusted-ca/c-cert", "build", "untrusted-certificate", "", "SSL_CERT_FILE", "Unknown"),
    ("09-untrusted-ca/c2-cert-pypi", "build", "untrusted-certificate", "", "UV_NATIVE_TLS", ""),
    ("09-untrusted-ca/c3-cert-git", "build", "untrusted-certificate", "", "http.sslCAInfo", ""),
]


@pytest.mark.parametrize(("file", "kind", "cause", "sentence", "next", "first"), CASES)
def test_a_report(file: str, kind: str, cause: str, sentence: str, next: str, first: str) -> None:
    text = (FIELD / f"{file}.log").read_bytes().decode()
    found, explained = kinds.explain(text)
    assert (found, explained.cause) == (kind, cause)
    assert sentence in explained.sentence and next in explained.next
    assert first in explained.evidence[0]
    assert all(line in text for line in explained.evidence)


def test_every_report_is_read() -> None:
    wanted = {file.split("/")[0] for file, *_ in CASES}
    there = {f"{path.parent.name}/{path.stem}" for path in FIELD.glob("*/*.log")}
    assert {each for each in there if each.split("/")[0] in wanted} == {c[0] for c in CASES}


@pytest.mark.parametrize("name", ["a2-double-unknown", "c-rank0"])
def test_reports_of_another_process_are_no_evidence(name: str) -> None:
    text = (FIELD / "01-double-prefix" / f"{name}.log").read_text()
    assert len(kinds.explain(text)[1].evidence) == 1
