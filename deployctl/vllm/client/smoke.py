"""Checks on one answer of a server: pure, with verdicts that tell kinds of failure apart.

dead: no usable answer came · thinking: it generated, and the budget was spent on thinking ·
wrong: a check on the answer failed · slow: right, and out of its bounds · pass · unknown: the
server is alive and did not let us ask (a key, a rate limit), or the answer could not be judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from deployctl.vllm.client import text_judgement
from deployctl.vllm.client.answers import Answer
from deployctl.vllm.client.outcome import REFUSALS, RequestFailed

Verdict = Literal["dead", "thinking", "wrong", "slow", "unknown", "pass"]
WORST: tuple[Verdict, ...] = ("dead", "wrong", "thinking", "slow", "unknown", "pass")
"""Verdicts, the one that decides over several requests first."""

THINK = re.compile(r"^\s*<think>.*?(</think>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Expectation:
    """What must be true of one answer; an absent field is not checked.

    `max_ttft` is in seconds; `prompt_tokens` is how long the prompt must have been.
    """

    finish_reason: tuple[str, ...] | None = None
    contains: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    json_valid: bool = False
    python_compiles: bool = False
    tool_call: str | None = None
    min_tokens: int | None = None
    max_ttft: float | None = None
    min_tokens_per_second: float | None = None
    served_name: str | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True)
class Result:
    """The verdict on one answer, what is wrong with it, and what is worth knowing all the same."""

    verdict: Verdict
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check(answer: Answer | RequestFailed, expected: Expectation) -> Result:
    """Judge one answer, or the failure to get one."""
    if isinstance(answer, RequestFailed):
        return _failed(answer)
    text, notes = _said(answer)
    if not text and not answer.tool_calls and _spent_on_thinking(answer):
        spent = f"generated {_count(answer)}, the budget was spent on thinking: raise max_tokens"
        return Result("thinking", (spent,), notes)
    try:
        wrong = [*_shape(answer, text, expected), *_content(answer, text, expected)]
    except text_judgement.NotJudged as error:
        return Result("unknown", (str(error),), notes)
    if wrong:
        return Result("wrong", tuple(wrong), notes)
    slow = _pace(answer, expected)
    return Result("slow" if slow else "pass", tuple(slow), notes)


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict over several requests."""
    return min(verdicts, key=WORST.index)


def tokens_per_second(answer: Answer) -> float | None:
    """Speed of generation: after the first token where a stream shows when that came."""
    tokens = answer.completion_tokens
    if tokens is None or tokens < 1 or answer.seconds <= 0:
        return None
    if answer.first_token is None or tokens == 1:
        return tokens / answer.seconds
    rest = answer.seconds - answer.first_token
    return (tokens - 1) / rest if rest > 0 else None


def _failed(failure: RequestFailed) -> Result:
    if failure.kind in REFUSALS:
        return Result("unknown", (f"alive, but it did not let us ask: {failure}",))
    if failure.kind == "http" and failure.status is not None and failure.status < 500:
        return Result("wrong", (f"the request was refused: {failure}",))
    return Result("dead", (f"{failure.kind}: {failure}",))


def _said(answer: Answer) -> tuple[str, tuple[str, ...]]:
    """The text that counts as the answer, and notes on the way it came."""
    content = answer.content or ""
    if THINK.match(content):
        return THINK.sub("", content, count=1).strip(), ("inline think tags: no reasoning parser",)
    if not content and answer.reasoning and answer.finish_reason == "stop":
        return answer.reasoning, ("answer arrived as reasoning",)
    return content, ()


def _spent_on_thinking(answer: Answer) -> bool:
    thought = bool(answer.reasoning) or bool(THINK.match(answer.content or ""))
    return thought and answer.finish_reason == "length"


def _count(answer: Answer) -> str:
    return "tokens" if answer.completion_tokens is None else f"{answer.completion_tokens} tokens"


def _shape(answer: Answer, text: str, expected: Expectation) -> list[str]:
    found = []
    if expected.served_name and answer.model not in (None, expected.served_name):
        found.append(f"answered as model {answer.model}, not {expected.served_name}")
    if not text.strip() and not answer.tool_calls:
        found.append(f"the content is empty (finish reason {answer.finish_reason})")
    if expected.finish_reason and answer.finish_reason not in expected.finish_reason:
        wanted = " or ".join(expected.finish_reason)
        found.append(f"finish reason is {answer.finish_reason}, not {wanted}")
    if expected.tool_call and expected.tool_call not in answer.tool_calls:
        called = ", ".join(answer.tool_calls) or "none"
        found.append(f"tool {expected.tool_call} was not called; called: {called}")
    tokens = answer.completion_tokens
    if expected.min_tokens and (tokens is None or tokens < expected.min_tokens):
        found.append(f"{tokens or 'an unknown number of'} tokens, at least {expected.min_tokens}")
    asked = answer.prompt_tokens
    if expected.prompt_tokens and (asked is None or asked < expected.prompt_tokens):
        found.append(f"the prompt had {asked} tokens, meant to have {expected.prompt_tokens}")
    return found


def _content(answer: Answer, text: str, expected: Expectation) -> list[str]:
    found = [f"does not contain {part!r}" for part in expected.contains if part not in text]
    return found + text_judgement.problems(
        text, expected.regex, expected.json_valid, expected.python_compiles
    )


def _pace(answer: Answer, expected: Expectation) -> list[str]:
    found = []
    if expected.max_ttft is not None:
        first = answer.first_token
        if first is None:
            found.append("time to first token is unknown: the answer did not come as a stream")
        elif first > expected.max_ttft:
            found.append(f"first token after {first:.2f} s, at most {expected.max_ttft:g} s")
    if expected.min_tokens_per_second is not None:
        speed = tokens_per_second(answer)
        if speed is None or speed < expected.min_tokens_per_second:
            said = "unknown" if speed is None else f"{speed:.1f}"
            found.append(f"{said} tokens/s, at least {expected.min_tokens_per_second:g}")
    return found
