"""What a source says of a server: its command line and its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deployctl.errors import UsageError


@dataclass(frozen=True)
class Given:
    """A server as some file or person starts it.

    `argv` is what follows `vllm serve`; `program` the path of `vllm`, where one is named; `image`
    a container's; `notes` what was left out, in sentences.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None
    image: str | None = None
    gpus: Sequence[int] | None = None
    notes: Sequence[str] = ()
    secrets: Sequence[str] = ()
    """Variables of the server that hold secrets, by name alone."""
    build: Sequence[str] = ()
    """The lines of the build section, where it is known what runs."""
    remarks: Sequence[str] = ()
    """What was found, as comments."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a setting has its value, by its key."""


def nothing(source: str, why: str) -> UsageError:
    """The error for a source without a server's command line."""
    return UsageError(
        f"{source} starts no vLLM server that is understood here",
        why,
        "give the command line itself: deployctl init --from 'vllm serve MODEL …'",
    )
