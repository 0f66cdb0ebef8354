"""The record of a run, filled while it goes: what the report is rendered from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from deployctl.errors import DeployError, Interrupted, LockHeld, Undecided
from deployctl.steps import registry
from deployctl.steps.delivery import Delivery
from deployctl.steps.identity import MAIN
from deployctl.steps.interface import SERVER, Change, Evidence

StepStatus = Literal["changed", "unchanged", "passed", "failed", "skipped", "unknown"]
Outcome = Literal[
    "deployed",
    "changed",
    "unchanged",
    "passed",
    "rolled-back",
    "failed",
    "undecided",
    "skipped",
    "interrupted",
]


@dataclass(frozen=True)
class StepRecord:
    """How one step ended on one host. `seconds` is wall time."""

    step: str
    status: StepStatus
    seconds: float = 0.0
    evidence: Evidence = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    reason: str = ""
    error: DeployError | None = None
    attempted: bool = True
    """False where the step's plan was blocked or unknown: it has touched nothing."""
    hook: bool = False
    """A command of the user's own around a step, which says nothing about the release."""


@dataclass
class HostRecord:
    """One host's part of a run. `round_trips` counts requests to its agent."""

    host: str
    unit: str = MAIN
    """The unit that was worked on."""
    wave: int | None = None
    """The wave in which it switched, from 1 on, where a strategy has waves."""
    release: str | None = None
    previous: str | None = None
    changed: bool = False
    restored: bool = False
    earlier: bool = False
    """An earlier release was to be served, not what the profile says now."""
    declined: str = ""
    """Why the wanted release was not tried: it failed before, and nothing has changed since."""
    held_back: str = ""
    """Why it did not begin, or did not switch: another host failed before its turn."""
    ended: bool = False
    """Whether its part is over."""
    steps: list[StepRecord] = field(default_factory=list)
    error: DeployError | None = None
    round_trips: int = 0
    without_service: float | None = None
    """Seconds in which nothing served, where the run interrupted a serving release."""
    still_without_service: bool = False
    """Whether nothing was proven to serve when the run ended: `without_service` goes on."""
    outages: list[float] = field(default_factory=list)
    """The same, gap by gap."""
    still_serving: str | None = None
    """The release that runs on after a failure after which nothing goes back."""
    rollback_error: DeployError | None = None
    """Why the previous release could not be brought back."""
    deliveries: tuple[Delivery, ...] = ()
    """What it got from other hosts, and made for them."""
    recovered_run: str | None = None
    """The run that had died on this host and was recovered."""

    def note_skipped(self, names: Sequence[str], left_out: Collection[str], back: str) -> None:
        """Name the steps that did not run, before those of a rollback (they begin with `back`)."""
        done = {step.step for step in self.steps}
        skipped = [
            StepRecord(name, "skipped", reason="left out" if name in left_out else "not reached")
            for name in names
            if name not in done
        ]
        places = (i for i, step in enumerate(self.steps) if step.step.startswith(back))
        at = next(places, len(self.steps))
        self.steps[at:at] = skipped


@dataclass
class RunRecord:
    """One run: what was asked, and how it ended on every host."""

    run: str
    profile: str
    playbook: str
    started: datetime
    hosts: list[HostRecord] = field(default_factory=list)
    seconds: float = 0.0
    outcome: Outcome = "failed"
    exit_code: int = 1


def outcome(hosts: Sequence[HostRecord]) -> tuple[Outcome, int]:
    """A run's outcome and exit code: the first host that failed decides."""
    for host in hosts:
        if host.error is not None:
            if isinstance(host.error, Interrupted):
                return "interrupted", host.error.exit_code
            if host.restored:
                return "rolled-back", 10
            if isinstance(host.error, LockHeld):
                return "skipped", host.error.exit_code
            if isinstance(host.error, Undecided):
                return "undecided", host.error.exit_code
            return "failed", host.error.exit_code
    if any(host.changed for host in hosts):
        return ("deployed" if any(_launched(host) for host in hosts) else "changed"), 0
    if any(s.status == "passed" and not s.hook for host in hosts for s in host.steps):
        return "passed", 0
    return "unchanged", 0


def _launched(host: HostRecord) -> bool:
    """Whether a server was started, or one that a dead run had started was made current."""
    starting = registry.makers(SERVER)
    found = [step.status for step in host.steps if step.step in starting]
    switched = host.release != host.previous
    return any(status != "skipped" and (status != "unchanged" or switched) for status in found)
