"""The conversation with an agent on this machine: what may come between, and who ends when."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deployctl.errors import ConnectionLost, HostError, NoPython, RemoteError
from deployctl.hosts.interface import Ending
from deployctl.hosts.local import LocalChannel, LocalTransport
from deployctl.hosts.session import Call, Limits, Session
from deployctl.hosts.stream import AHEAD, upload
from tests.hosts.lab import processes

QUICK = Limits(start=10, ping=0.1, dead=0.5, silence=30)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that hang are killed sooner than a user's would be."""
    monkeypatch.setattr("deployctl.hosts.local.CLOSE_LIMIT", 0.3)


class StandInHost(LocalTransport):
    """This machine, whose login shell runs `script` first, with the program as its arguments."""

    def __init__(self, script: str) -> None:
        super().__init__("stand-in")
        self.script = script
        self.channels: list[LocalChannel] = []

    def open(self, argv: Sequence[str]) -> LocalChannel:
        program = [sys.executable, *argv[1:]] if argv[0] == "python3" else list(argv)
        channel = LocalChannel(["/bin/sh", "-c", self.script, "sh", *program])
        self.channels.append(channel)
        return channel


def start(script: str, root: Path, python: str = "python3", limits: Limits = QUICK) -> Session:
    return Session(StandInHost(script), root=str(root), python=python, limits=limits)


def refusal(script: str, root: Path, python: str = "python3", limits: Limits = QUICK) -> HostError:
    """Why no agent started; no thread and no process is left of it."""
    before = set(threading.enumerate())
    with pytest.raises(HostError) as caught:
        start(script, root, python, limits)
    assert set(threading.enumerate()) <= before
    assert caught.value.exit_code == 4
    return caught.value


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with start('exec "$@"', tmp_path, limits=Limits()) as session:
        yield session


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Session]:
    """A session that gives its host up soon."""
    with start('exec "$@"', tmp_path) as session:
        yield session


class TestPythons:
    def test_none(self, tmp_path: Path) -> None:
        error = refusal('exec "$@"', tmp_path, python="/nowhere/python3")
        assert isinstance(error, NoPython)
        assert "no /nowhere/python3 on the host" in error.what
        assert "python: /path" in error.next

    @pytest.mark.parametrize("version", ["2.7.18", "3.7.17", "3.8.20"])
    def test_too_old(self, tmp_path: Path, version: str) -> None:
        # A stand-in: this Python, which says that it is another.
        stand_in = tmp_path / f"python_{version}_stand_in"
        numbers = tuple(int(part) for part in version.split("."))
        stand_in.write_text(
            f"#!{sys.executable}\nimport sys\n"
            f"sys.version_info = {numbers}\nsys.version = {version!r}\n"
            "exec(sys.argv[2])\n"
        )
        stand_in.chmod(0o755)
        error = refusal('exec "$@"', tmp_path, python=str(stand_in))
        assert isinstance(error, NoPython)
        assert f"is {version}, the agent needs 3.9" in error.what

    def test_one_that_breaks(self, tmp_path: Path) -> None:
        error = refusal("echo 'cannot open shared object' >&2; exit 1", tmp_path)
        assert isinstance(error, ConnectionLost)
        assert "status 1" in error.what and "cannot open shared object" in error.why

    def test_a_shell_that_lets_nobody_in(self, tmp_path: Path) -> None:
        error = refusal("echo 'This account is currently not available.'; exit 1", tmp_path)
        assert "This account is currently not available." in error.why

    def test_one_that_says_nothing(self, tmp_path: Path) -> None:
        limits = Limits(start=0.3)
        error = refusal("exec cat >/dev/null", tmp_path, limits=limits)
        assert "did not start" in error.what and "0.3 s" in error.why

    def test_a_root_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        error = refusal('exec "$@"', tmp_path / "file" / "root")
        assert "directory cannot be written" in error.what and "root: /path" in error.next


class TestNoise:
    @pytest.mark.parametrize(
        "script",
        [
            "echo 'Welcome to this machine'",
            "printf 'a greeting without an end'",
            "head -c 100000 /dev/urandom",
            "echo 42; echo '[1]'; echo '{\"id\": 1}'; echo '{\"other\": 1}'",
            "head -c 200000 /dev/zero | tr '\\0' '['; echo",
            "echo noise >&2",
        ],
    )
    def test_before_the_first_line(self, tmp_path: Path, script: str) -> None:
        with start(f'{script}; exec "$@"', tmp_path) as session:
            assert session.call("network.listener", port=1)["listening"] is False

    def test_a_stream_of_noise_is_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("deployctl.hosts.session.LONGEST_LINE", 100_000)
        refusal("exec cat /dev/zero", tmp_path)


class TestRequests:
    def test_several_operations_in_one_round_trip(self, session: Session) -> None:
        answers = session.ask(
            [
                Call("files.write", {"path": "@/a", "text": "x"}),
                Call("files.read", {"path": "@/a"}),
                Call("files.nothing"),
                Call("files.read", {"wrong": 1}),
                Call("files.read", {"path": "@/"}),
            ]
        )
        assert session.round_trips == 1
        assert answers[1]["text"] == "x"
        kinds = [answer.kind for answer in answers[2:] if isinstance(answer, RemoteError)]
        assert kinds == ["no-such-operation", "TypeError", "not-a-file"]

    def test_an_error_of_one_is_raised(self, session: Session) -> None:
        with pytest.raises(RemoteError) as caught:
            session.call("files.remove_tree", path="/")
        assert caught.value.kind == "outside" and caught.value.exit_code == 4

    def test_a_long_line_each_way(self, session: Session) -> None:
        text = "é" * 3_000_000
        session.call("files.write", path="@/big", text=text)
        assert session.call("files.read", path="@/big", limit=1 << 24)["text"] == text

    def test_requests_do_not_wait_for_each_other(self, session: Session) -> None:
        slow = session.stream("files.put", path="@/slow", size=1, sha256="0")
        with ThreadPoolExecutor(8) as pool:
            ports = range(1, 30)
            found = list(pool.map(lambda port: session.call("network.listener", port=port), ports))
        assert [one["port"] for one in found] == list(ports)
        assert session.round_trips == 1 + len(found)
        slow.cancel()
        with pytest.raises(RemoteError, match="given up"):
            slow.result()

    def test_an_interrupted_request_is_cancelled(self, session: Session, tmp_path: Path) -> None:

        stream = session.stream("files.put", path="@/x", size=2, sha256="0")
        stream.feed("YQ==")
        assert stream.next() == {"taken": 1}
        stream.cancel()
        with pytest.raises(RemoteError, match="given up"):
            stream.result()
        # What had come is not left lying about.
        assert [path.name for path in tmp_path.iterdir()] == ["agent"]


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
        assert all(now <= then for now, then in zip(inventory(), before, strict=True))

    def test_an_agent_that_dies_is_noticed_at_once(self, session: Session) -> None:
        waiting = session.stream("files.put", path="@/x", size=1, sha256="0")
        began = time.monotonic()
        os.kill(session.agent["pid"], signal.SIGKILL)
        with pytest.raises(ConnectionLost) as caught:
            waiting.result()
        assert time.monotonic() - began < 1
        assert "the connection to the agent ended" in caught.value.what
        with pytest.raises(ConnectionLost):
            session.call("network.listener", port=1)

    def test_an_agent_that_hangs_is_noticed_in_time(self, watched: Session) -> None:
        waiting = watched.stream("files.put", path="@/x", size=1, sha256="0")
        began = time.monotonic()
        os.kill(watched.agent["pid"], signal.SIGSTOP)
        with pytest.raises(ConnectionLost) as caught:
            waiting.result()
        assert QUICK.dead - 0.2 < time.monotonic() - began < QUICK.dead + 1
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

    def test_an_orphan_ends_and_its_lock_falls(self, tmp_path: Path) -> None:
        # The controller is there and silent, as behind a link that was cut: only the agent's
        # own watch can end it.
        limits = Limits(ping=60, dead=60, silence=2)
        with start('exec "$@"', tmp_path) as other:
            orphan = Session(StandInHost('exec "$@"'), root=str(tmp_path), limits=limits)
            assert orphan.call("releases.lock", profile="demo", holder={"run": "r1"})
            pid = orphan.agent["pid"]
            began = time.monotonic()
            with pytest.raises(RemoteError):
                other.call("releases.lock", profile="demo", holder={"run": "r2"})
            while processes.is_alive(pid):
                assert time.monotonic() - began < 6
                time.sleep(0.02)
            assert time.monotonic() - began > 1.5
            assert other.call("releases.lock", profile="demo", holder={"run": "r2"}, wait=2)
        orphan.close()

    def test_an_orphan_that_is_stuck_ends_too(self, tmp_path: Path) -> None:
        limits = Limits(ping=60, dead=60, silence=1)
        host = DeafHost('exec "$@"')
        session = Session(host, root=str(tmp_path), limits=limits)
        pid = session.agent["pid"]
        host.deaf.set()
        session.call("files.write", path="@/big", text="x" * 4_000_000)
        with pytest.raises(ConnectionLost):
            session.call("files.read", path="@/big", limit=1 << 24)
        assert not processes.is_alive(pid)
        session.close()


def open_files() -> int:
    """How many files are open, what the listing itself opens left out."""
    return len(list(Path("/proc/self/fd").iterdir()))


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
            while self.deaf.is_set() and len(data) >= 65536 and processes.is_alive(pid):
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
        assert time.monotonic() - began < 6
        with pytest.raises(OSError):
            channel.send(b"x")
        assert channel.receive() == b""


class TestUpload:
    def test_a_big_file(self, session: Session, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(os.urandom(5_000_000))
        written = upload(session, source, "@/there/copy", 0o755)
        copy = tmp_path / "there/copy"
        assert copy.read_bytes() == source.read_bytes()
        assert written["size"] == 5_000_000 and copy.stat().st_mode & 0o777 == 0o755

    def test_an_empty_file(self, session: Session, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"")
        assert upload(session, tmp_path / "source", "@/copy")["size"] == 0

    def test_it_does_not_run_ahead_of_the_host(self, watched: Session, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(bytes(20_000_000))
        sent = 0
        send = watched._send

        def count(message: dict[str, object]) -> None:
            nonlocal sent
            sent += len(str(message.get("data", "")))
            send(message)

        watched._send = count  # type: ignore[method-assign,assignment]
        os.kill(watched.agent["pid"], signal.SIGSTOP)
        with pytest.raises(ConnectionLost):
            upload(watched, source, "@/copy")
        assert sent < 2 * AHEAD

    def test_a_place_that_cannot_be_written(self, session: Session, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(bytes(10_000_000))
        (tmp_path / "directory").mkdir()
        with pytest.raises(RemoteError, match="is a directory"):
            upload(session, tmp_path / "source", "@/directory")
