"""The time without service in a run: from the stop of what served to a proven successor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Downtime:
    """Gaps in service on one host, in seconds from the first look at the clock.

    A gap begins before the first signal and ends after a completion has come back, so that it is
    never shorter than what a client saw.
    """

    clock: Callable[[], float] = time.monotonic
    closed: list[float] = field(default_factory=list)
    _since: float | None = None

    def interrupted(self, ago: float = 0.0) -> None:
        """What served is being stopped, or was stopped `ago` seconds before by a run that died."""
        if self._since is None:
            self._since = self.clock() - max(0.0, ago)

    def served(self) -> None:
        """Something serves again."""
        if self._since is not None:
            self.closed.append(self.clock() - self._since)
            self._since = None

    @property
    def open(self) -> bool:
        """Whether nothing serves now."""
        return self._since is not None

    def total(self) -> float | None:
        """Seconds without service until now; None where service was never interrupted."""
        running = [] if self._since is None else [self.clock() - self._since]
        found = [*self.closed, *running]
        return sum(found) if found else None
