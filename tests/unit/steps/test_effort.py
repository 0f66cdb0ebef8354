"""Whether a starting server does anything, from looks at it that are half a second apart."""

from __future__ import annotations

import pytest

from deployctl.steps.servers.effort import MOVED, Effort

LOOKS = 400
IDLE = {"cpu": 10.0, "read": 5e9, "written": 1e6, "log": 2e5, "gpu": 800.0}


def idle_for(**each: float) -> float:
    """How long it counts as idle after 200 s in which these grow by so much with each look."""
    effort = Effort(0.0)
    seen = dict(IDLE)
    for look in range(1, LOOKS + 1):
        seen = {name: value + each.get(name, 0.0) for name, value in seen.items()}
        effort.look(look * 0.5, **seen)
    return LOOKS * 0.5 - effort.since


@pytest.mark.parametrize(
    "each",
    [
        {},
        {"cpu": 0.01},  # answers to our own polls
        {"log": 300.0, "written": 4096.0, "cpu": 0.01},  # and their access lines, page by page
        {"log": 9e6, "written": 9e6},  # one line repeated as fast as it can
    ],
)
def test_answers_and_words_are_no_work(each: dict[str, float]) -> None:
    """Found: a /health of 500 with the access log on was never given up."""
    assert idle_for(**each) > 199


@pytest.mark.parametrize(
    "each",
    [
        {"cpu": 0.4},  # compiling
        {"read": 3e5},  # weights from a slow disk: three looks for a MiB
        {"written": 5e5, "log": 100.0},  # a download
        {"gpu": 1.0},  # weights that arrive on the GPU
    ],
)
def test_work_of_its_own_is(each: dict[str, float]) -> None:
    assert idle_for(**each) <= 4 * 0.5


def test_what_ends_with_a_process_is_made_up_for() -> None:
    effort = Effort(0.0)
    effort.look(0.5, read=5e9)
    assert not effort.look(1.0, read=1e9)
    assert effort.look(1.5, read=1e9 + 2 * MOVED)


def test_what_is_not_known_is_no_work_and_hides_none() -> None:
    effort = Effort(0.0)
    effort.look(0.5, cpu=1.0, gpu=None)
    assert not effort.look(1.0, cpu=1.0, gpu=800.0)
    assert not effort.look(1.5, cpu=1.0, gpu=None)
    assert effort.look(2.0, cpu=1.0, gpu=900.0)


def test_while_nobody_looked_it_was_not_silent() -> None:
    effort = Effort(0.0)
    effort.look(0.5, cpu=1.0)
    effort.overslept(600.0)
    assert effort.since == 600.5
