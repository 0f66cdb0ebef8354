"""Gates on measured behaviour: smoke requests and the drafter's acceptance."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from deployctl.config.base import Duration, Settings, misfit


class SmokeCheck(Settings):
    """What must be true of one answer; a field that is absent is not checked."""

    finish_reason: list[Literal["stop", "length", "tool_calls"]] | None = None
    """Reasons for which the answer may have ended."""
    contains: list[str] = []
    """Texts that must all stand in the answer."""
    regex: list[str] = []
    """Regular expressions (Python's) that must each match somewhere in the answer."""
    json_valid: bool = False
    """The answer, or its first fenced block, must be JSON."""
    python_compiles: bool = False
    """The Python in the answer must compile; it is never run."""
    tool_call: str | None = None
    """The tool, by name, that must be called."""
    min_tokens: int | None = Field(default=None, ge=1)
    """Least number of tokens generated, as the server counts them."""
    max_ttft: Duration | None = None
    """Longest time to the first token, streaming requests only."""
    min_tokens_per_second: float | None = Field(default=None, gt=0)
    """Least speed of generation, in a stream counted from the first token on."""

    @field_validator("regex")
    @classmethod
    def _expressions(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return patterns


class SmokeRequest(Settings):
    """One request and its checks."""

    name: str
    """The request's name in reports, another for each."""
    prompt: str | None = None
    """The question, as the user's only message; instead of `messages`."""
    prompt_tokens: int | None = Field(default=None, ge=1)
    """Lengthen the prompt with filler to this many tokens at least (longer than a window)."""
    messages: list[dict[str, Any]] | None = Field(default=None, min_length=1)
    """The whole conversation in OpenAI's form; instead of `prompt`."""
    tools: list[dict[str, Any]] | None = None
    """Tools that the model may call, in OpenAI's form."""
    max_tokens: int = Field(default=4000, ge=1)
    """Most tokens of the answer, thinking included; fewer where the context has no room."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature; at 0 the likeliest token is taken each time."""
    stream: bool = False
    """Ask for the answer token by token, so that the time to the first one is seen."""
    thinking: bool | None = None
    """chat_template_kwargs.enable_thinking; the model's template decides when absent."""
    extra: dict[str, Any] = {}
    """Further keys of the request body; they replace those that other settings make."""
    check: SmokeCheck = SmokeCheck()
    """What must be true of the answer; that it is not empty is checked in any case."""
    timeout: Duration = 300.0
    """The whole answer must have come within this."""

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        if "messages" in self.extra:
            raise misfit(("extra", "messages"), "give it once, as messages")
        if self.check.max_ttft is not None and not self.stream:
            raise misfit(("check", "max_ttft"), "time to first token needs stream: true")
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
    """Requests that are sent one after the other; one about quicksort by default."""

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
    """The published mean acceptance length."""
    source: str
    """Where it was published, and for what."""


class AcceptanceSettings(Settings):
    """The gate on the drafter: pooled counts from requests of our own."""

    prompts: str = "code"
    """A shipped prompt set (code, math, chat, long-context) or a file of prompts."""
    max_prompts: int = Field(default=64, ge=1)
    """Most prompts of the set to ask, drawn by the seed; a clear verdict ends it earlier."""
    max_tokens: int = Field(default=512, ge=1)
    """Most tokens of each answer."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature; at 0 the likeliest token is taken each time."""
    thinking: bool | None = None
    """chat_template_kwargs.enable_thinking; the model's template decides when absent."""
    min_length: float | None = Field(default=None, ge=1)
    """Floor of the mean acceptance length (the bonus token counted)."""
    min_rate: float | None = Field(default=None, ge=0, le=1)
    """Floor of accepted / draft tokens."""
    min_per_position: list[Annotated[float, Field(ge=0, le=1)]] = []
    """Floors of accepted / drafts at each position, from the first on."""
    min_drafts: int = Field(default=50, ge=1)
    """Fewer drafts than this give no verdict."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence of the interval around what was measured; a floor inside it is undecided."""
    tolerance: float | None = Field(default=None, ge=0)
    """How far below the last good release's mean acceptance length, on the prompts that both were
    asked, is still accepted; not compared when absent here and in the playbook."""
    references: list[Reference] = []
    """Published figures for the report and its diagnosis; never floors."""
    seed: int = 0
    """Seed of the prompts' order, of the interval's resampling and, where the temperature is above
    0, of the requests."""
    timeout: Duration = 300.0
    """The whole answer to one prompt must have come within this."""
