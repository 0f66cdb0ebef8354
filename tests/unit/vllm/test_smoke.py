"""Case 10, and every kind of check on an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployctl.vllm.client.answers import Answer, read
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.smoke import Expectation, check, tokens_per_second, worst
from deployctl.vllm.client.text_checks import code_blocks

CASES = Path(__file__).parents[2] / "cases"
CHAT = {
    case["case"][0]: case
    for case in map(
        json.loads, (CASES / "errors" / "chat_responses.jsonl").read_text().splitlines()
    )
}


def answer(**given: Any) -> Answer:
    fields: dict[str, Any] = {
        "model": "m",
        "content": "def f():\n    return 1\n",
        "reasoning": None,
        "tool_calls": (),
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "seconds": 2.0,
    }
    return Answer(**fields | given)


@pytest.mark.parametrize("case", ["A", "C"])
def test_a_budget_spent_on_thinking_is_not_dead(case: str) -> None:
    result = check(read(CHAT[case], 1.0), Expectation(contains=("OK",)))
    assert result.verdict == "thinking"
    assert "raise max_tokens" in result.problems[0]


def test_the_old_reasoning_field_passes() -> None:
    result = check(read(CHAT["B"], 1.0), Expectation(contains=("OK",)))
    assert (result.verdict, result.problems, result.notes) == ("pass", (), ())


def test_an_answer_delivered_as_reasoning_is_a_warning() -> None:
    result = check(read(CHAT["D"], 1.0), Expectation(contains=("OK",)))
    assert (result.verdict, result.notes) == ("pass", ("answer arrived as reasoning",))


def test_inline_think_tags_pass_with_a_note() -> None:
    result = check(read(CHAT["E"], 1.0), Expectation(regex=("^OK$",)))
    assert result.verdict == "pass"
    assert "inline think tags" in result.notes[0]


def test_an_unclosed_think_tag_at_the_limit_is_thinking() -> None:
    cut = answer(content="<think>\nThe user asks", finish_reason="length")
    assert check(cut, Expectation()).verdict == "thinking"


@pytest.mark.parametrize(
    ("given", "expected", "problem"),
    [
        ({"content": None}, Expectation(), "content is empty"),
        ({"content": " \n"}, Expectation(), "content is empty"),
        ({}, Expectation(contains=("class ",)), "does not contain 'class '"),
        ({}, Expectation(regex=("^class",)), "does not match"),
        ({}, Expectation(finish_reason=("length",)), "finish reason is stop, not length"),
        ({}, Expectation(json_valid=True), "not valid JSON"),
        ({"content": "```python\ndef f(:\n```"}, Expectation(python_compiles=True), "compile"),
        ({"content": "```sh\nls\n```"}, Expectation(python_compiles=True), "none in the answer"),
        ({}, Expectation(tool_call="search"), "tool search was not called; called: none"),
        ({}, Expectation(min_tokens=21), "20 tokens, at least 21"),
        ({"completion_tokens": None}, Expectation(min_tokens=1), "unknown number"),
        ({}, Expectation(served_name="other"), "answered as model m"),
        ({}, Expectation(prompt_tokens=2048), "the prompt had 10 tokens"),
    ],
)
def test_wrong(given: dict[str, Any], expected: Expectation, problem: str) -> None:
    result = check(answer(**given), expected)
    assert result.verdict == "wrong"
    assert problem in result.problems[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Expectation(contains=("def ",), regex=("return 1",), python_compiles=True)),
        ({"content": '```json\n{"a": 1}\n```'}, Expectation(json_valid=True)),
        ({"content": '{"a": 1}'}, Expectation(json_valid=True)),
        (
            {"content": None, "tool_calls": ("search",), "finish_reason": "tool_calls"},
            Expectation(tool_call="search", finish_reason=("tool_calls",)),
        ),
        ({}, Expectation(served_name="m", min_tokens=20, min_tokens_per_second=10.0)),
        ({"first_token": 0.2}, Expectation(max_ttft=0.2)),
    ],
)
def test_right(given: dict[str, Any], expected: Expectation) -> None:
    assert check(answer(**given), expected).verdict == "pass"


@pytest.mark.parametrize(
    ("given", "expected", "problem"),
    [
        ({}, Expectation(min_tokens_per_second=10.1), "10.0 tokens/s, at least 10.1"),
        ({"first_token": 1.5}, Expectation(max_ttft=1.0), "first token after 1.50 s"),
        ({}, Expectation(max_ttft=1.0), "time to first token is unknown"),
    ],
)
def test_slow(given: dict[str, Any], expected: Expectation, problem: str) -> None:
    result = check(answer(**given), expected)
    assert result.verdict == "slow"
    assert problem in result.problems[0]


def test_wrong_weighs_more_than_slow() -> None:
    result = check(answer(), Expectation(contains=("nope",), min_tokens_per_second=1e9))
    assert result.verdict == "wrong"
    assert worst(["pass", "slow", "wrong", "unknown"]) == "wrong"


@pytest.mark.parametrize(
    ("kind", "status", "verdict"),
    [
        ("refused", None, "dead"),
        ("timeout", None, "dead"),
        ("stalled", None, "dead"),
        ("early-close", None, "dead"),
        ("bad-answer", None, "dead"),
        ("unavailable", 503, "dead"),
        ("http", 500, "dead"),
        ("http", 404, "wrong"),
        ("busy", 429, "unknown"),
        ("key", 401, "unknown"),
    ],
)
def test_a_request_without_an_answer(kind: Any, status: int | None, verdict: str) -> None:
    assert check(RequestFailed(kind, "said so", status), Expectation()).verdict == verdict


def test_interactive_sessions_are_no_code() -> None:
    text = "Text\n```python\nx = 1\n```\nand\n```python\n>>> x\n1\n```\n```sh\nls\n```\n"
    assert code_blocks(text) == ["x = 1\n"]


def test_speed_leaves_out_the_time_to_the_first_token() -> None:
    assert tokens_per_second(answer()) == 10.0
    assert tokens_per_second(answer(first_token=1.0, completion_tokens=21)) == 20.0
    assert tokens_per_second(answer(completion_tokens=None)) is None


def test_json_that_is_nested_beyond_reason_is_wrong() -> None:
    assert check(answer(content="[" * 50_000), Expectation(json_valid=True)).verdict == "wrong"
