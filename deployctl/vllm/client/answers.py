"""One answer of an OpenAI-compatible server, read from its JSON or put together from a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from deployctl.vllm import json_text
from deployctl.vllm.client.server_words import Words, error_of
from deployctl.vllm.counters.counts import Counts


@dataclass(frozen=True)
class Answer:
    """What came back for one request; absent parts are None, whatever way they were absent.

    `seconds` is the whole request, `first_token` the time to the first piece of text of any kind
    (streaming only), both in seconds. `speculation` is the server's own count for this request,
    where its version offers one and it is switched on. `token_ids` are those of the answer, where
    the request asked for them (`return_token_ids`) and the server knows how.
    """

    model: str | None
    content: str | None
    reasoning: str | None
    tool_calls: tuple[str, ...]
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    first_token: float | None = None
    speculation: Counts | None = None
    token_ids: tuple[int, ...] | None = None


WORD = 200
"""Characters of a name in an answer (model, tool, reason) that are kept."""
CALLS = 128
POSITIONS = 4096
"""Far beyond any drafter's tokens."""
LARGEST = 1 << 53
"""Beyond any count of tokens; above it a float is not exact."""


class Malformed(Exception):
    """The JSON is not an answer; the message says what is missing."""


class ServerError(Malformed):
    """The server ended a stream with an error of its own."""

    def __init__(self, words: Words) -> None:
        super().__init__(words.text)
        self.words = words


def read(document: Any, seconds: float) -> Answer:
    """An answer from a chat or text completion's JSON; raises `Malformed`."""
    choice = _choice(document)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        message = {"content": choice.get("text")} if "text" in choice else {}
    return Answer(
        model=_word(document.get("model")),
        content=_text(message.get("content")),
        reasoning=_reasoning(message),
        tool_calls=_tool_names(message.get("tool_calls")),
        finish_reason=_word(choice.get("finish_reason")),
        prompt_tokens=_usage(document, "prompt_tokens"),
        completion_tokens=_usage(document, "completion_tokens"),
        seconds=seconds,
        speculation=_speculation(document),
        token_ids=_token_ids(choice.get("token_ids")),
    )


class Assembly:
    """Puts an answer together from the events of a stream, in order."""

    def __init__(self) -> None:
        self.done = False
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._tools: dict[int, str] = {}
        self._seen: dict[str, Any] = {}
        self._finish: str | None = None
        self._first: float | None = None

    def add(self, data: str, at: float) -> None:
        """The payload of one `data:` line, `at` seconds after the request was sent.

        Raises ValueError for broken JSON, `Malformed` for what is not an event of an answer, and
        `ServerError` for the server's own error.
        """
        if data.strip() == "[DONE]":
            self.done = True
            return
        document = json_text.parsed(data)
        if not isinstance(document, Mapping):
            raise Malformed("an event of the stream is not an object")
        error = error_of(document)
        if error is not None:
            raise ServerError(error)
        for key in ("model", "usage", "metrics"):
            if document.get(key) is not None:
                self._seen[key] = document[key]
        choices = document.get("choices") or []
        if not isinstance(choices, list):
            raise Malformed("the choices of an event are not a list")
        for choice in choices:
            self._add_choice(choice, at)

    def answer(self, seconds: float) -> Answer:
        """The whole answer, once the stream has ended."""
        return Answer(
            model=_word(self._seen.get("model")),
            content="".join(self._content) or None,
            reasoning="".join(self._reasoning) or None,
            tool_calls=tuple(name for _, name in sorted(self._tools.items())),
            finish_reason=self._finish,
            prompt_tokens=_usage(self._seen, "prompt_tokens"),
            completion_tokens=_usage(self._seen, "completion_tokens"),
            seconds=seconds,
            first_token=self._first,
            speculation=_speculation(self._seen),
        )

    @property
    def finished(self) -> bool:
        """Whether the server marked the answer as complete."""
        return self.done or self._finish is not None

    def _add_choice(self, choice: Any, at: float) -> None:
        if not isinstance(choice, Mapping):
            raise Malformed("a choice of the stream is not an object")
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            delta = {"content": choice.get("text")}
        content, reasoning = _text(delta.get("content")), _reasoning(delta)
        calls = delta.get("tool_calls")
        calls = calls if isinstance(calls, list) else []
        if (content or reasoning or calls) and self._first is None:
            self._first = at
        self._content.append(content or "")
        self._reasoning.append(reasoning or "")
        for call in calls:
            name = _tool_name(call)
            if name and len(self._tools) < CALLS:
                index = call.get("index")
                self._tools[index if isinstance(index, int) else len(self._tools)] = name
        self._finish = _word(choice.get("finish_reason")) or self._finish


def _choice(document: Any) -> Mapping[str, Any]:
    choices = document.get("choices") if isinstance(document, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise Malformed("the answer has no choices")
    choice: Mapping[str, Any] = choices[0]
    return choice


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _word(value: Any) -> str | None:
    return value[:WORD] if isinstance(value, str) else None


def whole(value: Any) -> int | None:
    """A count that a server states; None for anything implausible."""
    return value if type(value) is int and 0 <= value < LARGEST else None


def _reasoning(message: Mapping[str, Any]) -> str | None:
    """vLLM called the field `reasoning_content` first and `reasoning` later."""
    return _text(message.get("reasoning")) or _text(message.get("reasoning_content"))


def _tool_name(call: Any) -> str | None:
    function = call.get("function") if isinstance(call, Mapping) else None
    return _word(function.get("name")) if isinstance(function, Mapping) else None


def _tool_names(calls: Any) -> tuple[str, ...]:
    listed = calls if isinstance(calls, list) else []
    return tuple(name for call in listed[:CALLS] if (name := _tool_name(call)))


def _usage(document: Mapping[str, Any], key: str) -> int | None:
    usage = document.get("usage")
    return whole(usage.get(key)) if isinstance(usage, Mapping) else None


def _token_ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(isinstance(one, int) for one in value):
        return None
    return tuple(value)


def _speculation(document: Mapping[str, Any]) -> Counts | None:
    """`metrics.speculative_decoding`: vLLM's `--per-request-spec-decode-metrics summary`.

    Its `acceptance_histogram[j]` counts the drafts of which exactly j tokens were accepted.
    """
    metrics = document.get("metrics")
    found = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    histogram = found.get("acceptance_histogram")
    if not isinstance(histogram, list) or len(histogram) > POSITIONS:
        return None
    counts = [whole(number) for number in histogram]
    steps, drafted, accepted = (
        whole(found.get(f"num_{name}"))
        for name in ("spec_steps", "draft_tokens", "accepted_draft_tokens")
    )
    if None in (*counts, steps, drafted, accepted):
        return None
    at_least = list(accumulate(reversed([count or 0 for count in counts])))[::-1]
    return Counts(steps, drafted or 0, accepted or 0, tuple(at_least[1:]))
