"""Programs that are asked something: what the controller hears of one that takes its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core import interface, programs
from deployctl.agent.core.interface import Call

UNTIL_HEARD = 'until [ -e "$0" ]; do sleep 0.01; done; echo done'


def test_it_is_heard_while_a_program_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = tmp_path / "heard"

    def emit(event: dict[str, Any]) -> None:
        assert event == {}
        heard.touch()

    for module in (interface, programs):
        monkeypatch.setattr(module, "BEAT", 0.01)
    call = Call(str(tmp_path), emit)
    # It ends because it was heard, and by nothing else.
    answer = programs.ask(call, ["sh", "-c", UNTIL_HEARD, str(heard)], 120)
    assert (answer.status, answer.stdout) == (0, "done\n")


def test_one_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    answer = programs.ask(Call(str(tmp_path), lambda event: None), ["sleep", "600"], 0.05)
    assert answer.status is None
