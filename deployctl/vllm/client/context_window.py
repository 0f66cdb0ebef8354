"""What fits into a served model's context: how long a prompt may be, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.vllm.client.client import Client
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.client.requests import lengthened, user

GUESSED_CHARACTERS_PER_TOKEN = 4.0
"""A rule of thumb for English, for servers without /tokenize."""
OVERHEAD = 1.05
"""Filler is made a little longer than meant, so that the prompt is at least so long."""


@dataclass(frozen=True)
class ContextWindow:
    """`tokens` is the most that prompt and answer may have together; None where unknown."""

    model: str
    tokens: int | None
    characters_per_token: float

    def lengthened(self, prompt: str, tokens: int) -> str:
        """The prompt behind filler of about this many tokens, rather more than fewer."""
        return lengthened(prompt, round(tokens * self.characters_per_token * OVERHEAD))

    def room(self, client: Client, messages: Sequence[Mapping[str, Any]], wanted: int) -> int:
        """How many tokens an answer may have: `wanted`, or what the context leaves.

        At least 1: a prompt that is too long itself is for the server to refuse.
        """
        if self.tokens is None:
            return wanted
        prompt = client.count_tokens(self.model, messages)
        if prompt is None:
            size = sum(len(str(message.get("content", ""))) for message in messages)
            prompt = round(size / self.characters_per_token)
        return max(1, min(wanted, self.tokens - prompt))


def context_window(client: Client, model: str) -> ContextWindow:
    """The context of a served model, as the server tells it."""
    try:
        lengths = {served.name: served.max_model_len for served in client.served()}
    except RequestFailed:
        lengths = {}
    sample = lengthened("", 2000)
    count = client.count_tokens(model, user(sample))
    per_token = len(sample) / count if count else GUESSED_CHARACTERS_PER_TOKEN
    return ContextWindow(model, lengths.get(model), per_token)
