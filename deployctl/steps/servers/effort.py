"""Whether a starting server does anything: by what it works, not by what it writes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

BUSY = 0.1
"""Share of one core above which it counts as working: it compiles, captures or imports."""
MOVED = 1 << 20
"""Bytes read from disk, or written beside its log, that count as loading or downloading."""

PAGES = 64
"""Bytes written for one of its log: a short line of a poll's answer dirties a whole page."""


@dataclass
class Effort:
    """Looks at one server, each with the `cpu` seconds of all its processes, the bytes that they
    have `read` and `written`, the size of its `log` and the MiB that they hold on GPUs; None where
    that is not known. `since` is when it last did something, by the clock of the looks."""

    since: float
    _before: dict[str, float] = field(default_factory=dict)
    _at: float = 0.0

    def look(self, now: float, **seen: float | None) -> bool:
        """Take one look; whether anything was done since the one before, or since what counts for
        too little by itself began to add up."""
        known = {name: value for name, value in seen.items() if value is not None}
        first = not self._before
        worked = first or (
            self._more(known, "cpu") > BUSY * (now - self._at)
            or self._more(known, "read") > MOVED
            or self._more(known, "written") - PAGES * max(0.0, self._more(known, "log")) > MOVED
            or self._more(known, "gpu") != 0
        )
        if worked:
            self.since = now
            self._before.update(known)
        else:
            # Processor time is a rate, over each look; the others add up. What became less did so
            # with a process that ended.
            for name, value in known.items():
                lower = min(self._before.get(name, value), value)
                self._before[name] = value if name == "cpu" else lower
        self._at = now
        return worked

    def spoke(self, now: float) -> None:
        """It reached a phase, or a bar of its moved on."""
        self.since = now

    def overslept(self, seconds: float) -> None:
        """There was no check for so long: that does not count as silence of the server."""
        self.since += seconds
        self._at += seconds

    def _more(self, known: dict[str, float], name: str) -> float:
        if name not in known or name not in self._before:
            return 0.0
        return known[name] - self._before[name]
