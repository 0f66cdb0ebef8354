"""Off a terminal, a step that shows nothing new for long is shown to be at work."""

from __future__ import annotations

import time

import pytest

from deployctl.engine.ledger.record import StepRecord
from deployctl.engine.run import events
from deployctl.report.terminal import BEAT, Plain
from deployctl.steps.interface import Plan


def test_a_step_at_work_is_shown_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    plain, now = Plain(), time.monotonic()
    plain.hear(events.StepStarted("gpu1", "build", Plan("change")))
    plain.hear(events.StepProgress("gpu1", "build", "installing", "", None))
    capsys.readouterr()
    plain.beat(now + BEAT / 2)
    assert capsys.readouterr().err == ""
    for number in (1, 2):
        plain.beat(now + number * (BEAT + 1))
        (line,) = capsys.readouterr().err.splitlines()
        assert "gpu1: build: at work for " in line and line.endswith(" s, installing")
    # What is shown for itself needs no second line.
    plain.hear(events.StepProgress("gpu1", "build", "checking", "", None))
    capsys.readouterr()
    plain.hear(events.StepEnded("gpu1", StepRecord("build", "changed", 60.0)))
    capsys.readouterr()
    plain.beat(now + 10 * BEAT)
    assert capsys.readouterr().err == ""
