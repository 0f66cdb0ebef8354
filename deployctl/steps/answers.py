"""What a step must know of a host, and what the host has answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from deployctl.hosts.session import Call

Answer = TypeVar("Answer")


class Key(str, Generic[Answer]):
    """The name of an answer, and its type."""


@dataclass(frozen=True)
class Question(Generic[Answer]):
    """One thing a step must know: an operation of the agent, and the key of its answer.

    Two steps with the same key ask the same thing, once. `where` is `node` for the machine under
    a container (the host itself where there is none).
    """

    key: Key[Answer]
    call: Call[Answer]
    where: Literal["host", "node"] = "host"
    moving: str = ""
    """What it asks about is a name that moves, and its answer's `commit` what that stands for: one
    host's holds for all hosts of a run, as the answer itself (`WHOLE_ANSWER`) or by asking again
    with the commit as this argument."""


WHOLE_ANSWER = "answer"


@dataclass(frozen=True)
class Unknown:
    """An answer that could not be had: `kind` is the agent's word for why."""

    kind: str
    reason: str


class Unanswered(LookupError):
    """A plan needs an answer that is unknown; the reason is its message."""


class Answers:
    """The answers of one host, by key."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: Key[Answer]) -> Answer:
        unknown = self.unknown(key)
        if unknown is not None:
            raise Unanswered(f"{key}: {unknown.reason}")
        value: Answer = self._values[key]
        return value

    def renewed(self, later: Answers) -> Answers:
        """These answers, with those that were asked for again in place of the older ones."""
        return Answers({**self._values, **later._values})

    def get(self, key: Key[Answer]) -> Answer | None:
        """The answer; None where it is unknown or was not asked."""
        value = self._values.get(key)
        return None if isinstance(value, Unknown) else value

    def unknown(self, key: str) -> Unknown | None:
        """Why this answer is unknown; None where it is known."""
        value = self._values.get(key, Unknown("not-asked", "it was not checked"))
        return value if isinstance(value, Unknown) else None
