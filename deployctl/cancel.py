"""An interrupt as a token that every thread of a run sees, at a point where its work can bear it.

A thread that is `watching` a token is interrupted once by each interrupt: where it waits (`sleep`,
`waking`), where it asks (`check`), or at the end of what is `shielded`. Others never are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")


class Cancelled(BaseException):
    """This thread's work was interrupted. No failure: whoever began the work tells what is left."""


class Token:
    """The interrupts of one run; `cancel` may be called from a signal's handler."""

    def __init__(self) -> None:
        self.count = 0
        # Reentrant: a signal may come while its own thread is in here.
        self._changed = threading.Condition(threading.RLock())
        self._wakers: list[Callable[[], object]] = []

    def cancel(self) -> None:
        """Interrupt every thread that watches."""
        with self._changed:
            self.count += 1
            self._changed.notify_all()
            wakers = [*self._wakers]
        for wake in wakers:
            wake()

    def wait(self, seconds: float, seen: int) -> None:
        """Wait, at most until there are more interrupts than were seen."""
        with self._changed:
            self._changed.wait_for(lambda: self.count > seen, seconds)

    @contextmanager
    def waking(self, wake: Callable[[], object], seen: int) -> Iterator[None]:
        """Call `wake` for each interrupt while inside, for one that was not seen yet at once."""
        with self._changed:
            self._wakers.append(wake)
            late = self.count > seen
        try:
            if late:
                wake()
            yield
        finally:
            with self._changed:
                self._wakers.remove(wake)


class _Watch(threading.local):
    """What a thread watches, and how many interrupts it has seen."""

    token: Token | None = None
    seen = 0
    shields = 0


_watch = _Watch()


@contextmanager
def watching(token: Token) -> Iterator[None]:
    """This thread is interrupted by interrupts of the token, from the first one on."""
    before = _watch.token, _watch.seen, _watch.shields
    _watch.token, _watch.seen, _watch.shields = token, 0, 0
    try:
        yield
    finally:
        _watch.token, _watch.seen, _watch.shields = before


def check() -> None:
    """Raise `Cancelled` for an interrupt that this thread has not seen."""
    token = _watch.token
    if token is not None and token.count > _held_back():
        _watch.seen = token.count
        raise Cancelled


def _held_back() -> int:
    """The interrupts that this thread does not act on: those seen, and one more in a shield."""
    return _watch.seen + bool(_watch.shields)


@contextmanager
def shielded() -> Iterator[None]:
    """Hold an interrupt back until the work inside is whole; it is raised then. A second one
    breaks the shield."""
    _watch.shields += 1
    try:
        yield
    finally:
        _watch.shields -= 1
    check()


def sleep(seconds: float) -> None:
    """Wait; an interrupt ends it."""
    token = _watch.token
    if token is None:
        time.sleep(seconds)
        return
    token.wait(seconds, _held_back())
    check()


@contextmanager
def waking(wake: Callable[[], object]) -> Iterator[None]:
    """Call `wake`, which must end what this thread waits for inside, when it is interrupted: at
    once where it was already. What follows tells by `check`."""
    token = _watch.token
    if token is None:
        yield
        return
    with token.waking(wake, _held_back()):
        yield


def abandonable(work: Callable[[], T], undo: Callable[[T], object]) -> T:
    """Do what cannot be ended early; where an interrupt comes, it ends by itself and is undone."""
    token = _watch.token
    if token is None or _watch.shields:
        return work()
    found: list[T] = []
    failed: list[BaseException] = []
    over = threading.Event()
    abandoned = threading.Event()
    handing = threading.Lock()

    def carry_out() -> None:
        try:
            made = work()
        except BaseException as error:
            failed.append(error)
        else:
            with handing:
                if not abandoned.is_set():
                    found.append(made)
            if not found:
                with suppress(Exception):
                    undo(made)
        over.set()

    threading.Thread(target=carry_out, name="abandonable", daemon=True).start()
    with waking(over.set):
        over.wait()
    with handing:
        if not found and not failed:
            abandoned.set()
    if failed:
        raise failed[0]
    if not found:
        check()
        raise Cancelled
    return found[0]


def pending() -> bool:
    """Whether there is an interrupt that this thread has not seen."""
    token = _watch.token
    return token is not None and token.count > _held_back()


def wait_for(changed: threading.Condition, ready: Callable[[], bool]) -> None:
    """Wait on a condition that is held until `ready`; an interrupt ends it."""

    def wake() -> None:
        with changed:
            changed.notify_all()

    with waking(wake):
        changed.wait_for(lambda: ready() or pending())
    check()
