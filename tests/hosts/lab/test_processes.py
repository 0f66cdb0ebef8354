"""Looking at processes that end while they are looked at."""

from __future__ import annotations

import os
import subprocess
import threading

from tests.hosts.lab import processes


def test_one_that_is_gone_has_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        pid = process.pid
    assert processes.descendants(pid) == []
    assert (processes.name_of(pid), processes.command(pid)) == ("", "")
    assert not processes.is_alive(pid)


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert processes.name_of(process.pid) == "true"
        assert not processes.is_alive(process.pid)


def test_a_crowd_that_comes_and_goes() -> None:
    """Thousands of looks at a shell whose children live for a millisecond."""
    crowd = ["sh", "-c", "while :; do (true; true) & (true) & wait; done"]
    with subprocess.Popen(crowd, start_new_session=True) as shell:
        ended = threading.Timer(1.0, shell.kill)
        ended.start()
        seen = 0
        while processes.is_alive(shell.pid):
            seen += len(processes.descendants(shell.pid))
        ended.join()
    assert seen > 0
