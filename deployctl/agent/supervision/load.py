"""How many requests a server has in flight while it is stopped, as it counts them at its door."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Optional

from ..core.interface import Call
from ..network.network import http
from ..wire.answers import Requests

PAUSE = 0.1
PATIENCE = 1.0
"""Seconds between two questions, and for an answer."""
QUIET = 3
"""Answers in a row that count nothing, after which a server that was asked to end has nothing left
to do for others."""


class Watch:
    """Asks a server's /load (`{"server_load": N}`) while it is entered and lets requests end.

    `first` is the count before the stop, `last` the last that was answered within `drain` seconds
    of it: what the server breaks off then is no longer counted, and was cut off. None where none
    was answered: a server without `--enable-server-load-tracking` counts nothing and answers 0 or
    not at all. `idle` is called once where nothing is in flight any more since it was `asked` to
    end.
    """

    def __init__(
        self,
        call: Call,
        url: str,
        drain: float,
        asked: Callable[[], bool] = lambda: False,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._call, self._url, self._drain = call, url, drain
        self._asked, self._idle = asked, idle
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="load", daemon=True)
        self.first: Optional[int] = None
        self.last: Optional[int] = None

    def __enter__(self) -> Watch:
        if self._url:
            self.first = self.last = self._count()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._url:
            self._thread.join()

    def told(self) -> Requests:
        """Requests `in_flight` at the stop, and how many were `cut_off`: all of them where the
        server ends at once, at most the last count where it lets them end first."""
        return {"in_flight": self.first, "cut_off": self.last}

    def _ask(self) -> None:
        end = time.monotonic() + self._drain
        quiet = 0
        while not self._over.wait(PAUSE):
            asked = self._asked()
            found = self._count()
            if time.monotonic() > end:
                return
            if found is not None:
                self.last = found
            quiet = quiet + 1 if asked and found == 0 else 0
            if quiet == QUIET:
                self._idle()

    def _count(self) -> Optional[int]:
        answer = http(self._call, "GET", self._url, timeout=PATIENCE)
        if answer["status"] != 200:
            return None
        try:
            count: Any = json.loads(answer["body"])["server_load"]
        except (ValueError, KeyError, TypeError):
            return None
        return count if type(count) is int and count >= 0 else None
