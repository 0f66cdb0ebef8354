"""Ending processes that do not let themselves be ended at once."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from typing import Any

import pytest

from deployctl.agent.processes import processes


def stat(process: subprocess.Popen[bytes]) -> processes.Stat:
    found = processes.read_stat(process.pid)
    assert found is not None
    return found


def test_one_that_became_somebody_elses_spares_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    send, held = signal.pidfd_send_signal, os.pidfd_open
    foreign: list[int] = []

    def opened(pid: int) -> int:
        fd = held(pid)
        if pid == sudo.pid:
            foreign.append(fd)
        return fd

    def refuse(fd: int, number: Any) -> None:
        if fd in foreign:
            raise PermissionError(1, "Operation not permitted")
        send(fd, number)
        # However short the time: it has ended by when that begins.
        assert select.select([fd], [], [], 60)[0]

    with subprocess.Popen(["sleep", "60"]) as sudo, subprocess.Popen(["sleep", "60"]) as own:
        monkeypatch.setattr("os.pidfd_open", opened)
        monkeypatch.setattr("signal.pidfd_send_signal", refuse)
        ended = processes.stop([stat(sudo), stat(own)], grace=0.2, patience=0.2)
        assert (ended.gone, ended.left) == ([own.pid], [sudo.pid])
        sudo.kill()
