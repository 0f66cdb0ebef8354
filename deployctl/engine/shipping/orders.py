"""An artifact that is on order: its producer, those who wait for it, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deployctl.errors import DeployError, HostError
from deployctl.steps.delivery import Delivery
from deployctl.steps.interface import Context


@dataclass(frozen=True)
class Waiting:
    """A receiver at its step: what it works with, and where the artifact shall lie."""

    context: Context
    folder: str


@dataclass
class Order:
    """One artifact. All fields are read and written under the meeting's lock."""

    delivery: Delivery
    source: Context | None = None
    """What the producer works with, once the artifact is there and proven."""
    failure: HostError | None = None
    """Why the producer does not bring it."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    results: dict[str, Mapping[str, Any] | HostError] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """Receivers that take no part any more."""
    able: frozenset[str] = frozenset()
    """Receivers that could make it themselves."""
    deputy: str = ""
    """The receiver that makes it in place of a producer that failed."""
    why: str = ""
    """How that producer failed."""
    taken: bool = False
    """Whether somebody carries it out."""

    @property
    def settled(self) -> bool:
        """Whether the producer is needed no longer."""
        return all(one in self.results or one in self.left for one in self.delivery.receivers)

    @property
    def due(self) -> bool:
        """Whether all that wait for it can be served now, and none is served yet."""
        here = {*self.waiting, *self.results, *self.left}
        known = self.source is not None or self.failure is not None
        return known and not self.taken and here >= {*self.delivery.receivers}

    def is_over_for(self, host: str) -> bool:
        """Whether a receiver waits no longer: it has its result, carries it out, or makes it."""
        return host in self.results or self.due or self.deputy == host

    def fail(self, error: DeployError | None) -> None:
        """The producer has ended without the artifact. One receiver that is able to makes it in its
        place; where a second one fails as well, the fault is not the host's."""
        if self.source is not None or self.failure is not None:
            return
        before = self.delivery
        fit = [one for one in before.receivers if one in self.able and one not in self.left]
        if self.deputy or not fit:
            self.failure = producer_failed(before, error)
            return
        self.deputy = fit[0]
        said = error.what.removeprefix(f"{before.producer}: ") if error else "it ended without"
        self.why = f"{before.producer} failed: {said}"
        others = tuple(one for one in before.receivers if one != self.deputy)
        self.delivery = replace(before, producer=self.deputy, receivers=others, ready=False)
        self.waiting.pop(self.deputy, None)


def producer_failed(delivery: Delivery, error: DeployError | None) -> HostError:
    """What a receiver learns of a producer that failed."""
    producer, what = delivery.producer, delivery.artifact
    if error is None:
        why = f"{producer} ended its part of the run without having proven it"
        todo = f"see the report of {producer}, then retry"
    else:
        why, todo = f"{error.what}\n{error.why}".strip(), error.next
    return HostError(
        producer, f"it was to bring the {what}, and failed; nothing is touched", why, todo
    )
