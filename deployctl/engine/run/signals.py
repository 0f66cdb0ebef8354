"""Ctrl-C, and what counts as it, for all hosts of a run.

SIGTERM (a stopped cron job or service) and SIGHUP (a closed terminal) count as Ctrl-C, so that a
run which switches finishes its rollback whoever ends it. What was ignored stays ignored (nohup).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from deployctl.cancel import Token

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """While inside, signals interrupt who watches the token; in the main thread alone."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._token.cancel()
