"""Looking at processes that end while they are looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import time

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
    """Many looks at a shell whose children live for a millisecond; one that stays is in each."""
    crowd = ["sh", "-c", "sleep 60 & while :; do (true; true) & (true) & wait $!; done"]
    with subprocess.Popen(crowd, start_new_session=True) as shell:
        looks: list[list[str]] = []
        end = time.monotonic() + 1
        while not any(len(names) > 1 for names in looks) or time.monotonic() < end:
            assert processes.is_alive(shell.pid)
            looks.append([processes.name_of(pid) for pid in processes.descendants(shell.pid)])
        os.killpg(shell.pid, signal.SIGKILL)
    first = next(number for number, names in enumerate(looks) if "sleep" in names)
    assert all("sleep" in names for names in looks[first:])
