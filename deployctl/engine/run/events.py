"""What happens in a run, as data: passed to listeners, never printed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deployctl.engine.ledger.record import HostRecord, RunRecord, StepRecord
from deployctl.steps.interface import Plan


@dataclass(frozen=True)
class RunStarted:
    """A run begins."""

    run: str
    profile: str
    playbook: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Connecting:
    """A host's part begins: it is being reached."""

    host: str


@dataclass(frozen=True)
class HostStarted:
    """A host was reached and has answered all questions."""

    host: str
    seconds: float


@dataclass(frozen=True)
class Waiting:
    """Another run holds the lock, and we wait for it."""

    host: str
    holder: str


@dataclass(frozen=True)
class StepStarted:
    """A step begins to apply or to prove."""

    host: str
    step: str
    plan: Plan


@dataclass(frozen=True)
class StepProgress:
    """How far a step is: `fraction` between 0 and 1, or None where it cannot be known."""

    host: str
    step: str
    phase: str
    detail: str
    fraction: float | None


@dataclass(frozen=True)
class StepNote:
    """A line about a step, for people."""

    host: str
    step: str
    text: str


@dataclass(frozen=True)
class StepEnded:
    """A step has ended; the record says how."""

    host: str
    record: StepRecord


@dataclass(frozen=True)
class HostEnded:
    """A host is done."""

    record: HostRecord


@dataclass(frozen=True)
class RunEnded:
    """The run is over."""

    record: RunRecord


Event = (
    RunStarted
    | Connecting
    | HostStarted
    | Waiting
    | StepStarted
    | StepProgress
    | StepNote
    | StepEnded
    | HostEnded
    | RunEnded
)
Listener = Callable[[Event], None]


def nobody(event: Event) -> None:
    """A listener that does not listen."""
