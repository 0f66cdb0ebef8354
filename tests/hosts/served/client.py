"""A client that asks all the while, and knows when it was answered."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request

STEP = 0.02


class PollingClient:
    """Asks /v1/models every 20 ms from the moment it is entered.

    `gaps` lists its outages, each from the first question that got no answer to the last one: so
    long nothing served for certain, however late the client was to notice that it is over.
    """

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/models"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.gaps: list[float] = []
        self.answers = 0

    def __enter__(self) -> PollingClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        first: float | None = None
        last = 0.0
        while not self._over.wait(STEP):
            asked = time.monotonic()
            if self._answers():
                if first is not None:
                    self.gaps.append(last - first)
                    first = None
                self.answers += 1
            else:
                first, last = first if first is not None else asked, asked

    def _answers(self) -> bool:
        try:
            with self._opener.open(self._url, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
