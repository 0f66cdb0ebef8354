"""An interrupt reaches every thread that watches, once, where its work can bear it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from deployctl import cancel
from deployctl.cancel import Cancelled, Token, check, shielded, watching


def interrupted(work: Callable[[], object], token: Token) -> bool:
    """Whether work in a thread of its own, which waits, is ended by an interrupt."""
    waits, ended = threading.Event(), []

    def carry_out() -> None:
        with watching(token):
            try:
                waits.set()
                work()
            except Cancelled:
                ended.append(True)

    thread = threading.Thread(target=carry_out)
    thread.start()
    waits.wait()
    token.cancel()
    thread.join()
    return bool(ended)


def test_a_wait_is_ended() -> None:
    assert interrupted(lambda: cancel.sleep(600), Token())
    over = threading.Event()

    def waits() -> None:
        with cancel.waking(over.set):
            over.wait()
        check()

    assert interrupted(waits, Token())


def test_each_one_is_raised_once_in_each_thread() -> None:
    token = Token()
    token.cancel()
    for _ in range(2):
        with watching(token):
            with pytest.raises(Cancelled):
                check()
            check()
            token.cancel()
            with pytest.raises(Cancelled):
                cancel.sleep(600)
            cancel.sleep(0)


def test_it_waits_for_what_is_shielded() -> None:
    token, done = Token(), []
    with watching(token), pytest.raises(Cancelled), shielded():
        token.cancel()
        with shielded():
            check()
        with cancel.waking(lambda: pytest.fail("it was shielded")):
            cancel.sleep(0)
        done.append(True)
    assert done


def test_who_does_not_watch_is_not_interrupted() -> None:
    Token().cancel()
    check()
    cancel.sleep(0)
    with cancel.waking(lambda: pytest.fail("nobody watches")):
        pass


def test_one_that_came_before_the_wait_wakes_it() -> None:
    token = Token()
    with watching(token), pytest.raises(Cancelled):
        token.cancel()
        cancel.sleep(600)


def test_what_cannot_be_ended_is_left_and_undone() -> None:
    token, goes_on, undone = Token(), threading.Event(), threading.Event()

    def slow() -> str:
        goes_on.wait()
        return "made"

    def undo(made: str) -> None:
        assert made == "made"
        undone.set()

    assert interrupted(lambda: cancel.abandonable(slow, undo), token)
    assert not undone.is_set()
    goes_on.set()
    assert undone.wait(60)


def test_its_value_and_its_failure_are_handed_on() -> None:
    with watching(Token()):
        assert cancel.abandonable(lambda: 5, lambda made: None) == 5
        with pytest.raises(ZeroDivisionError):
            cancel.abandonable(lambda: 1 / 0, lambda made: None)


def test_a_second_interrupt_breaks_the_shield() -> None:
    token = cancel.Token()
    told: list[str] = []
    with cancel.watching(token):
        with pytest.raises(cancel.Cancelled), cancel.shielded():
            token.cancel()
            cancel.check()
            told.append("one is held back")
            token.cancel()
            cancel.sleep(600)
            told.append("never")
        cancel.check()
    assert told == ["one is held back"]


def test_a_second_interrupt_ends_what_a_shield_waits_for() -> None:
    token = cancel.Token()
    woken: queue.SimpleQueue[int] = queue.SimpleQueue()

    def wait() -> None:
        while True:
            woken.get(timeout=60)
            cancel.check()

    wake = cancel.waking(lambda: woken.put(1))
    with cancel.watching(token), pytest.raises(cancel.Cancelled), cancel.shielded(), wake:
        token.cancel()
        token.cancel()
        wait()
