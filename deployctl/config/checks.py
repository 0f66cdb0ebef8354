"""Gates on measured behaviour: smoke requests and the drafter's acceptance."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from deployctl.config.base import Duration, Settings, misfit


class SmokeCheck(Settings):
    """What must be true of one answer; a field that is absent is not checked."""

    finish_reason: list[Literal["stop", "length", "tool_calls"]] | None = None
    contains: list[str] = []
    regex: list[str] = []
    json_valid: bool = False
    python_compiles: bool = False
    tool_call: str | None = None
    min_tokens: int | None = Field(default=None, ge=1)
    max_ttft: Duration | None = None
    """Seconds to the first token, streaming requests only."""
    min_tokens_per_second: float | None = Field(default=None, gt=0)

    @field_validator("regex")
    @classmethod
    def _expressions(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return patterns


class SmokeRequest(Settings):
    """One request and its checks."""

    name: str
    prompt: str | None = None
    prompt_tokens: int | None = Field(default=None, ge=1)
    """Lengthen the prompt with filler to about this many tokens (longer than a window)."""
    messages: list[dict[str, Any]] | None = Field(default=None, min_length=1)
    tools: list[dict[str, Any]] | None = None
    max_tokens: int = Field(default=4000, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    stream: bool = False
    thinking: bool | None = None
    """chat_template_kwargs.enable_thinking, where the model has a thinking mode."""
    extra: dict[str, Any] = {}
    """Further keys of the request body."""
    check: SmokeCheck = SmokeCheck()
    timeout: Duration = 300.0

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        if "messages" in self.extra:
            raise misfit(("extra", "messages"), "say it once, as messages")
        if self.check.max_ttft is not None and not self.stream:
            raise misfit(
                ("check", "max_ttft"), "the first token is seen in a stream only: stream: true"
            )
        return self


def _quicksort() -> list[SmokeRequest]:
    return [
        SmokeRequest(
            name="quicksort",
            prompt="Write a Python quicksort function.",
            check=SmokeCheck(contains=["def "]),
        )
    ]


class SmokeSettings(Settings):
    """Deterministic requests with checks on the answers."""

    requests: list[SmokeRequest] = Field(default_factory=_quicksort, min_length=1)

    @model_validator(mode="after")
    def _named_apart(self) -> Self:
        names = [request.name for request in self.requests]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise misfit(("requests",), f"requests named twice: {', '.join(twice)}")
        return self


class Reference(Settings):
    """A published figure, shown beside ours with its source."""

    mean_acceptance_length: float
    source: str


class AcceptanceSettings(Settings):
    """The gate on the drafter: pooled counts from requests of our own."""

    prompts: str = "code"
    """A shipped prompt set (code, math, chat, long-context) or a file of prompts."""
    max_prompts: int = Field(default=64, ge=1)
    max_tokens: int = Field(default=512, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    thinking: bool | None = None
    min_length: float | None = Field(default=None, ge=1)
    """Floor of the mean acceptance length (the bonus token counted)."""
    min_rate: float | None = Field(default=None, ge=0, le=1)
    """Floor of accepted / draft tokens."""
    min_per_position: list[Annotated[float, Field(ge=0, le=1)]] = []
    """Floors of accepted / drafts at each position, from the first on."""
    min_drafts: int = Field(default=50, ge=1)
    """Fewer drafts than this give no verdict."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    tolerance: float | None = Field(default=None, ge=0)
    """How far below the last good release's mean acceptance length is still accepted."""
    references: list[Reference] = []
    seed: int = 0
    timeout: Duration = 300.0
