"""Bodies of requests to an OpenAI-compatible server, and filler that lengthens a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


def chat(
    model: str,
    messages: Sequence[Message],
    max_tokens: int,
    temperature: float = 0.0,
    stream: bool = False,
    thinking: bool | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of a chat completion.

    `thinking` pins the chat template's thinking mode (`enable_thinking`, as Qwen's and others'
    templates name it); None leaves the template's default. `extra` has the last word.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [dict(message) for message in messages],
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": thinking}
    if tools:
        body["tools"] = [dict(tool) for tool in tools]
    return body | dict(extra or {})


def user(prompt: str) -> list[Message]:
    """A conversation of one question."""
    return [{"role": "user", "content": prompt}]


SENTENCES = (
    "The depot keeps its spare parts on numbered shelves along the north wall.",
    "Every evening one clerk counts the boxes and writes the sum into a ledger.",
    "A train that arrives late is unloaded by the night shift before the doors close.",
    "The crane on the second quay lifts no more than twelve tonnes in strong wind.",
    "Letters for the harbour master go into the grey tray beside the window.",
    "When the river is high the lower road is closed and carts take the bridge.",
    "Two apprentices clean the lamps each week and note which of them flicker.",
    "The old scale is checked against the brass weights on the first of the month.",
)


def lengthened(prompt: str, characters: int) -> str:
    """The prompt behind about `characters` of filler that has nothing to do with it."""
    filler: list[str] = []
    size = 0
    for number in range(characters // 60 + 1):
        if size >= characters:
            break
        sentence = f"{number + 1}. {SENTENCES[number % len(SENTENCES)]}"
        filler.append(sentence)
        size += len(sentence) + 1
    if not filler:
        return prompt
    return "\n".join([*filler, "", f"Ignore the notes above. {prompt}"])
