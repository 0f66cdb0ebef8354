"""Ctrl-C where a run can bear it: at once while staging, after the step where half a step is worse.

SIGTERM (a stopped cron job or service) and SIGHUP (a closed terminal) count as Ctrl-C, so that a
run which switches finishes its way back whoever ends it. What was ignored stays ignored (nohup).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns signals into `KeyboardInterrupt`, held back while `shielded`. Used as a context."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._shields = 0
        self._pending = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Hold an interrupt back until the work inside is whole; it is raised then."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._pending and not self._shields:
            self._pending = False
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self._shields:
            raise KeyboardInterrupt
        self._pending = True
