"""Work on many hosts at once: a thread each, of which a bounded number is at work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

PARALLEL = 32
"""Hosts at work at once, unless something else is asked for."""


class Slots:
    """Most threads that work at once; one that waits for others gives its slot to another."""

    def __init__(self, count: int = PARALLEL) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Work in a slot, as soon as one is free."""
        with self._free:
            yield

    @contextmanager
    def given(self) -> Iterator[None]:
        """Wait inside without the slot that this thread has."""
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()


class Job(threading.Thread, Generic[Result]):
    """One piece of work in a thread of its own. A process that ends waits for none."""

    def __init__(self, name: str, work: Callable[[], Result]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._made: list[Result] = []
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._made.append(self._work())
        except BaseException as error:
            self._failure = error

    def result(self) -> Result:
        """Wait for its end: what it made; raises what it raised."""
        self.join()
        if self._failure is not None:
            raise self._failure
        return self._made[0]


def each(items: Sequence[Item], work: Callable[[Item], Result], slots: Slots) -> list[Result]:
    """What `work` makes of each item, all at once, in their order; raises the first failure of
    that order, once all have ended. An only item is worked on in this very thread."""
    if len(items) == 1:
        with slots.taken():
            return [work(items[0])]

    def one(item: Item) -> Result:
        with slots.taken():
            return work(item)

    jobs = [Job(f"{item}"[:40], lambda item=item: one(item)) for item in items]  # type: ignore[misc]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    return [job.result() for job in jobs]
