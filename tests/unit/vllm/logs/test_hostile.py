"""Any input at all: no traceback, no number that is not in it, and time in proportion to it."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployctl.vllm.logs import build, causes, encoded, kinds, server
from deployctl.vllm.logs.causes.cause import Cause
from deployctl.vllm.logs.lines import parse, read
from deployctl.vllm.logs.phases import Startup
from tests.unit.vllm.logs.reports import read as reports

KNOWN = [
    line
    for file in ("server_logs.txt", "build_logs.txt")
    for report in reports(file)
    for line in report.log.split("\n")
]
PIECES = (
    "(EngineCore_DP0 pid=4187) ",
    "(APIServer pid=1) ",
    "ERROR 11-12 16:25:35 [core.py:842] ",
    "INFO 03-26 05:25:01 cuda.py:230] ",
    "ERROR:    ",
    "[rank0]:",
    "\x1b[0;36m",
    "\x1b]0;title\x07",
    '{"log":"ValueError: x\\n","stream":"stderr","time":"2024-01-01T00:00:00Z"}',
    '{"message":',
    "2024-05-01T12:00:00.123456789Z stderr F ",
    "2024-05-01T12:00:00.123456789Z stderr P ",
    "Nov 12 16:24:58 host vllm[4100]: ",
    "vllm-1  | ",
    "ct7:913:1402 [1] misc/shmutils.cc:88 NCCL WARN ",
    "Traceback (most recent call last):",
    '  File "/srv/x.py", line 7, in load_model',
    "The above exception was the direct cause of the following exception:",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB.",
    "pydantic_core.ValidationError: 1 validation error for ModelConfig",
    "  Value error, x",
    "Worker failed with error 'CUDA error: ",
    "$ uv build",
    "FAILED: [code=137] x.o",
    "      CMake Warning at x (message):",
    "\r",
    "\n",
    "\x00",
    "\ud7ff\u2502",
)
LOGS = st.lists(
    st.one_of(st.sampled_from(PIECES), st.sampled_from(KNOWN), st.text(max_size=20), st.just("\n")),
    max_size=25,
).map("".join)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+", text))


FIXED = numbers(" ".join(f"{c.sentence} {c.next}" for c in (*causes.SERVER, *causes.BUILD)))


@settings(max_examples=120, deadline=None)
@given(LOGS)
def test_any_log(text: str) -> None:
    for explain in (server.explain, build.explain):
        explained = explain(text)
        # CUDA 12080 is shown as 12.8.
        shown = numbers(explained.sentence + explained.next) - FIXED
        cuda = {part for n in re.findall(r"\d{4,5}", text) for part in parts(n)}
        assert shown <= numbers(text) | cuda, explained
        assert all(line in text for line in explained.evidence), explained
        assert bool(explained.cause) == bool(explained.next) or not explained.cause
    assert kinds.explain(text)[0] in ("server", "build")
    startup = Startup()
    startup.feed(text, 1.0)


def parts(number: str) -> set[str]:
    return {str(int(number) // 1000), str(int(number) % 1000 // 10)}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00"]))
def test_any_bytes(data: bytes, magic: bytes) -> None:
    kinds.explain(encoded.text(magic + data))


@given(st.text(max_size=200))
def test_any_line(raw: str) -> None:
    line = parse(raw)
    assert line.raw in (raw, *re.split(r"\r\n|\n|\r", raw))
    assert len(read(raw)) <= len(re.split(r"\r\n|\n|\r", raw)) * 2 + raw.count("\\n")


BODIES = [
    "a",
    " ",
    "[",
    "(",
    "\x1b]",
    "(A pid=1) ",
    "2024-01-01 00:00:00 ",
    "ERROR 11-12 16:25:35 [a.py:1] ",
    "\r",
    "h:1:2 [0] NCCL WARN ",
    '{"a":[',
    "a.",
    "│ ",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_line_of_five_megabytes(body: str) -> None:
    text = body * (5_000_000 // len(body))
    began = time.thread_time()
    kinds.explain(text)
    build.explain(text)
    assert time.thread_time() - began < 20


@pytest.mark.parametrize("table", [causes.SERVER, causes.BUILD], ids=["server", "build"])
def test_every_pattern_takes_time_in_proportion(table: tuple[Cause, ...]) -> None:
    """Its own words over and over, which lead a pattern furthest astray."""
    for cause in table:
        words = re.split(r"[^A-Za-z0-9_'/ :.-]+", cause.pattern.pattern)
        for word in (" ".join(words), max(words, key=len)):
            text = f"{word} " * (16_384 // (len(word) + 1))
            began = time.thread_time()
            cause.pattern.search(text)
            assert time.thread_time() - began < 1, (cause.id, word)
