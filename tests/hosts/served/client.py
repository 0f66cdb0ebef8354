"""A client that asks all the while, and knows when it was answered."""

from __future__ import annotations

import threading
import time
import urllib.request
from http.client import HTTPException

STEP = 0.02
PATIENCE = 60.0
"""Seconds: a server that is slow to answer serves all the same."""


class PollingClient:
    """Asks /v1/models every 20 ms from the moment it is entered.

    `gaps` lists its outages, each from the failure of the first question that got no answer to the
    asking of the last one: so long nothing served for certain, however late the client was to
    notice that it began or that it is over. An outage that it is in when it is left is followed to
    its end.
    """

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/models"
        self._over = threading.Event()
        self._until = 0.0
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.gaps: list[float] = []
        self.answers = 0

    def __enter__(self) -> PollingClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._until = time.monotonic() + PATIENCE
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        failed: float | None = None
        last = 0.0
        while not self._over.is_set() or (failed is not None and time.monotonic() < self._until):
            asked = time.monotonic()
            if self._answers():
                if failed is not None:
                    self.gaps.append(max(0.0, last - failed))
                    failed = None
                self.answers += 1
            else:
                last = asked
                failed = time.monotonic() if failed is None else failed
            time.sleep(STEP)

    def _answers(self) -> bool:
        try:
            with self._opener.open(self._url, timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except (OSError, HTTPException):
            return False
