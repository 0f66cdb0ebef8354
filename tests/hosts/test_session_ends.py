"""Who ends when, and who notices: the controller, the agent, the link between them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts.interface import Ending
from deployctl.hosts.link import Link
from deployctl.hosts.session import Limits, Session
from deployctl.hosts.ways.local import LocalChannel
from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.stand_in import PATIENT, QUICK, StandInHost, start


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that hang are killed sooner than a user's would be."""
    monkeypatch.setattr("deployctl.hosts.ways.local.CLOSE_LIMIT", 0.3)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with start('exec "$@"', tmp_path) as session:
        yield session


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Session]:
    """A session that gives its host up soon."""
    with start('exec "$@"', tmp_path, limits=QUICK) as session:
        yield session


TIMELY = 50.0
"""Seconds, however busy this machine is: far from the limits of a patient session."""


class TestEnds:
    def test_closing_ends_the_agent(self, tmp_path: Path) -> None:
        session = start('exec "$@"', tmp_path)
        pid = session.agent["pid"]
        assert processes.is_alive(pid)
        session.close()
        assert not processes.is_alive(pid)
        session.close()
        with pytest.raises(ConnectionLost):
            session.call("network.listener", port=1)

    def test_nothing_is_left_behind(self, tmp_path: Path) -> None:
        def inventory() -> tuple[int, set[int], set[threading.Thread]]:
            return open_files(), set(processes.children(os.getpid())), set(threading.enumerate())

        start('exec "$@"', tmp_path).close()
        before = inventory()
        for _ in range(3):
            with start('exec "$@"', tmp_path) as session:
                session.call("network.listener", port=1)

        def nothing_new() -> bool:
            now = inventory()
            return now[0] <= before[0] and now[1] <= before[1] and now[2] <= before[2]

        wait_for("the end of all that was begun", nothing_new)

    def test_an_agent_that_dies_is_noticed_at_once(self, session: Session) -> None:
        waiting = session.stream("files.put", path="@/x", size=1, sha256="0")
        began = time.monotonic()
        os.kill(session.agent["pid"], signal.SIGKILL)
        with pytest.raises(ConnectionLost) as caught:
            waiting.result()
        assert time.monotonic() - began < TIMELY < PATIENT.dead
        assert "the connection to the agent ended" in caught.value.what
        with pytest.raises(ConnectionLost):
            session.call("network.listener", port=1)

    def test_an_agent_that_hangs_is_noticed_in_time(self, watched: Session) -> None:
        waiting = watched.stream("files.put", path="@/x", size=1, sha256="0")
        began = time.monotonic()
        watched.call("network.listener", port=1)
        os.kill(watched.agent["pid"], signal.SIGSTOP)
        with pytest.raises(ConnectionLost) as caught:
            waiting.result()
        assert QUICK.dead <= time.monotonic() - began < TIMELY
        assert "stopped answering" in caught.value.what

    def test_a_host_that_takes_no_more_is_noticed_too(self, watched: Session) -> None:
        # Its pipe is full: the sender is stuck, and the watch over it must not be.
        os.kill(watched.agent["pid"], signal.SIGSTOP)
        with pytest.raises(ConnectionLost, match="stopped answering"):
            watched.call("files.write", path="@/x", text="x" * 10_000_000)

    def test_an_agent_that_works_long_is_not_taken_for_dead(self, watched: Session) -> None:
        waiting = watched.stream("files.put", path="@/x", size=1, sha256="0")
        time.sleep(QUICK.dead * 2)
        waiting.cancel()
        with pytest.raises(RemoteError, match="given up"):
            waiting.result()

    def test_a_machine_that_stood_still_asks_before_it_gives_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("deployctl.hosts.session.Link", Overslept)
        with start('exec "$@"', tmp_path, limits=QUICK) as here:
            link = here._link
            assert isinstance(link, Overslept)
            wait_for("the sleep", lambda: hasattr(link, "woken") and link.woken.is_set())
            time.sleep(QUICK.ping * 3)
            assert here.call("network.listener", port=1)["listening"] is False

    def test_an_orphan_ends_and_its_lock_falls(self, tmp_path: Path) -> None:
        # The controller is there and silent, as behind a link that was cut: only the agent's
        # own watch can end it.
        limits = Limits(start=60, ping=60, dead=60, silence=5)
        with start('exec "$@"', tmp_path) as other:
            orphan = Session(StandInHost('exec "$@"'), root=str(tmp_path), limits=limits)
            began = time.monotonic()
            assert orphan.call("releases.lock", profile="demo", holder={"run": "r1"})
            pid = orphan.agent["pid"]
            with pytest.raises(RemoteError):
                other.call("releases.lock", profile="demo", holder={"run": "r2"})
            wait_for("the end of the orphan", lambda: not processes.is_alive(pid), TIMELY)
            assert time.monotonic() - began >= limits.silence
            assert other.call("releases.lock", profile="demo", holder={"run": "r2"}, wait=2)
        orphan.close()

    def test_an_agent_that_stood_still_hears_first_what_was_said_meanwhile(
        self, tmp_path: Path
    ) -> None:
        limits = Limits(start=60, ping=0.2, dead=60, silence=5)
        with start('exec "$@"', tmp_path, limits=limits) as session:
            os.kill(session.agent["pid"], signal.SIGSTOP)
            time.sleep(limits.silence + 1)
            os.kill(session.agent["pid"], signal.SIGCONT)
            assert session.call("network.listener", port=1)["listening"] is False
            assert processes.is_alive(session.agent["pid"])

    def test_an_orphan_that_is_stuck_ends_too(self, tmp_path: Path) -> None:
        limits = Limits(start=60, ping=60, dead=60, silence=5)
        host = DeafHost('exec "$@"')
        session = Session(host, root=str(tmp_path), limits=limits)
        pid = session.agent["pid"]
        session.call("files.write", path="@/big", text="x" * 4_000_000)
        host.deaf.set()
        with pytest.raises(ConnectionLost):
            session.call("files.read", path="@/big", limit=1 << 24)
        assert not processes.is_alive(pid)
        session.close()


def open_files() -> int:
    """How many files are open, what the listing itself opens left out."""
    return len(list(Path("/proc/self/fd").iterdir()))


class Overslept(Link):
    """A link on a machine that stands still, once, for longer than the host may be silent."""

    def _watch(self) -> None:
        self.woken = threading.Event()
        wait = self._closed.wait

        def late(timeout: float | None = None) -> bool:
            self._closed.wait = wait  # type: ignore[method-assign]
            time.sleep((timeout or 0) + self._limits.dead + 0.5)
            self.woken.set()
            return wait(0)

        self._closed.wait = late  # type: ignore[method-assign]
        super()._watch()


class DeafHost(StandInHost):
    """A host whose output stops being read once `deaf` is set, and until its process ends."""

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self.deaf = threading.Event()

    def open(self, argv: Sequence[str]) -> LocalChannel:
        channel = super().open(argv)
        receive, pid = channel.receive, channel._process.pid

        def deaf_receive() -> bytes:
            data = receive()
            while self.deaf.is_set() and processes.is_alive(pid):
                time.sleep(0.02)
            return data

        channel.receive = deaf_receive  # type: ignore[method-assign]
        return channel


class TestLocalChannel:
    def test_the_status_and_the_last_words(self) -> None:
        channel = LocalChannel(["sh", "-c", "echo out; echo err >&2; exit 7"])
        assert channel.receive() == b"out\n"
        assert channel.receive() == b""
        assert channel.ending() == Ending(7, "err\n")
        channel.close()
        assert channel.ending() == Ending(7, "err\n")

    def test_one_that_ignores_its_end_is_killed(self) -> None:
        channel = LocalChannel(["sleep", "60"])
        began = time.monotonic()
        channel.close()
        assert time.monotonic() - began < TIMELY
        with pytest.raises(OSError):
            channel.send(b"x")
        assert channel.receive() == b""

    def test_an_output_that_ends_after_all_else_is_closed_too(self) -> None:
        # Whoever holds it on outlives the program that was waited for.
        channel = LocalChannel(["sh", "-c", "sleep 1 & exec cat"])
        reading = threading.Thread(target=channel.receive)
        reading.start()
        channel.close()
        reading.join()
        assert channel._stdout.closed
