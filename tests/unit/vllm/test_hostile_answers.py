"""Answers that are made to crash, stall or fill whoever judges them."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from deployctl.vllm.client import text_checks, text_judgement
from deployctl.vllm.client.answers import WORD, Assembly, Malformed, read
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.event_stream import EventStream
from deployctl.vllm.client.smoke import Expectation, check
from deployctl.vllm.client.text_checks import code_blocks, fenced_blocks
from deployctl.vllm.counters import metrics
from deployctl.vllm.counters.unreadable import Unreadable
from tests.unit.vllm.loopback import respond, serving
from tests.unit.vllm.test_client import ANSWER, asked, failure
from tests.unit.vllm.test_smoke import answer

MEBI = 1 << 20
PYTHON = Expectation(python_compiles=True)


def test_python_that_crashes_the_compiler_is_wrong() -> None:
    nested = "[0 " + "for a in b " * 60_000 + "]"
    result = check(answer(content=nested), PYTHON)
    assert result.verdict == "wrong"
    assert "whether the Python compiles was not decided" in result.problems[0]


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        (PYTHON, "x = " + "(" * 199 + "[0 for a in b]" * 90_000),
        (Expectation(regex=("(a+)+$",)), "a" * 40 + "b"),
    ],
)
def test_a_check_without_an_end_is_ended(
    monkeypatch: pytest.MonkeyPatch, expected: Expectation, content: str
) -> None:
    monkeypatch.setattr(text_judgement, "CPU_SECONDS", 1)
    result = check(answer(content=content), expected)
    assert result.verdict == "wrong"


def test_a_check_that_takes_no_processor_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_judgement, "WALL_SECONDS", 0.0)
    result = check(answer(), PYTHON)
    assert result.verdict in ("wrong", "unknown")
    assert "did not end within 0 s" in result.problems[0]


def test_what_could_not_be_judged_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    result = check(answer(), PYTHON)
    assert result.verdict == "unknown"
    assert "/nowhere/python" in result.problems[0]


def test_checks_before_the_one_that_crashes_count() -> None:
    nested = "[0 " + "for a in b " * 60_000 + "]"
    found = text_judgement.problems(nested, regex=["class"], python_compiles=True)
    assert found[0] == "does not match /class/"
    assert len(found) == 2


@pytest.mark.parametrize(
    "text",
    [
        "```" + "a" * 3 * MEBI,
        "```" + "a" * MEBI + "\n" + "b\n" * (MEBI // 8),
        "`" * 3 * MEBI,
        "```\n" * (MEBI // 8),
        " " * 3 * MEBI + "```",
        ("`" * 1000 + " " * 1000 + "x\n") * 1000,
        "~~~\n" + "`" * 3 * MEBI,
        "\r" * (MEBI // 8),
    ],
)
def test_fences_take_linear_time(text: str) -> None:
    """A quadratic reading takes minutes for each."""
    fenced_blocks(text)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```py\na\n```\n", [("py", "a\n")]),
        ("```\r\na\r\n```\r\n", [("", "a\r\n")]),
        ("~~~~ python title\na\n~~~\n~~~~~\n", [("python", "a\n~~~\n")]),
        ("````\n```\na\n```\n````", [("", "```\na\n```\n")]),
        ("1. x\n   ```Python\n   a\n     b\n   ```\n", [("python", "a\n  b\n")]),
        ("```py\na\n", [("py", "a\n")]),
        ("``` not `a fence\na\n", []),
        ("``` py", [("py", "")]),
        ("```{.python}\na\n```", [("python", "a\n")]),
        ("```a\n``` b\n```\n", [("a", "``` b\n")]),
        ("``\na\n``", []),
    ],
)
def test_fences_of_every_form(text: str, blocks: list[tuple[str, str]]) -> None:
    assert fenced_blocks(text) == blocks
    assert code_blocks(text) == (
        [code for name, code in blocks if name in text_checks.PYTHON] if blocks else [text]
    )


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "deflate", "zstd", "x-gzip"])
def test_a_compressed_answer_is_refused_unread(encoding: str) -> None:
    bomb = gzip.compress(gzip.compress(bytes(8 * MEBI)))
    behave = respond("200 OK", bomb, f"application/json\r\nContent-Encoding: {encoding}")
    failed = failure(behave)
    assert (failed.kind, failed.status) == ("bad-answer", 200)
    assert encoding in str(failed)


def test_identity_is_what_is_asked_for_and_taken() -> None:
    heard = []

    def behave(connection: Any, request: bytes) -> None:
        heard.append(request)
        respond("200 OK", ANSWER, "application/json\r\nContent-Encoding: identity")(
            connection, request
        )

    with serving(behave) as url, Client(url) as client:
        assert client.send(asked()).content == "OK"
    assert b"accept-encoding: identity" in heard[0].lower()


def test_a_compressed_refusal_is_not_unpacked() -> None:
    body = gzip.compress(bytes(MEBI))
    assert failure(respond("500 No", body, "text/plain\r\nContent-Encoding: gzip")).status == 500


def document(**more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], **more}


@pytest.mark.parametrize("count", [10**400, -1, True, 1.5, "3", None, [1]])
def test_a_count_beyond_reason_is_unknown(count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    result = read(document(usage=usage), 1.0)
    assert (result.prompt_tokens, result.completion_tokens) == (None, None)
    assert check(result, Expectation(min_tokens_per_second=1.0)).verdict == "slow"


def test_names_are_bounded() -> None:
    call = {"function": {"name": "t" * MEBI}}
    message = {"tool_calls": [call] * 10_000}
    choice = {"message": message, "finish_reason": "f" * MEBI}
    result = read({"choices": [choice], "model": "m" * MEBI}, 1.0)
    assert len(result.tool_calls) < 1000
    for word in (*result.tool_calls, result.model, result.finish_reason):
        assert word is not None and len(word) <= WORD


def test_a_long_error_of_a_stream_is_bounded() -> None:
    with pytest.raises(Malformed) as failed:
        Assembly().add(json.dumps({"error": "e" * MEBI}), 0.0)
    assert len(str(failed.value)) < 1000


def test_a_histogram_of_millions_is_not_summed() -> None:
    made = {
        "acceptance_histogram": [0] * MEBI,
        "num_spec_steps": 1,
        "num_draft_tokens": 1,
        "num_accepted_draft_tokens": 1,
    }
    assert read(document(metrics={"speculative_decoding": made}), 1.0).speculation is None


def test_a_histogram_counts_the_drafts_that_got_at_least_so_far() -> None:
    made = {
        "acceptance_histogram": [5, 2, 1],
        "num_spec_steps": 8,
        "num_draft_tokens": 16,
        "num_accepted_draft_tokens": 4,
    }
    counts = read(document(metrics={"speculative_decoding": made}), 1.0).speculation
    assert counts is not None
    assert (counts.drafts, counts.per_position) == (8, (3, 1))


def test_a_long_line_in_small_pieces_takes_linear_time() -> None:
    stream = EventStream()
    for _ in range(MEBI // 8):
        assert stream.feed(b"datadata") == []
    assert stream.end() == []


@pytest.mark.parametrize(
    "text",
    [
        "a{" + ",".join(f'l{n}="x"' for n in range(200_000)) + "} 1\n",
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="' + "9" * 5000 + '"} 1\n',
        "vllm:spec_decode_num_drafts_total 1e300\n",
        "vllm:spec_decode_num_drafts_total nan\n",
        "x" * 3 * MEBI,
    ],
)
def test_counters_beyond_reason_are_unreadable(text: str) -> None:
    with pytest.raises(Unreadable) as failed:
        metrics.parse(text)
    assert len(str(failed.value)) < 1000


def test_a_refusal_is_bounded() -> None:
    assert len(str(failure(respond("500 No", b"e" * 50_000)))) < 1000
