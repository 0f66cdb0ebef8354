"""The conversation with an agent on this machine, and what may come between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import ConnectionLost, NoPython, RemoteError
from deployctl.hosts.session import Call, Limits, Session
from tests.hosts.lab.stand_in import refusal, start


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that hang are killed sooner than a user's would be."""
    monkeypatch.setattr("deployctl.hosts.ways.local.CLOSE_LIMIT", 0.3)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with start('exec "$@"', tmp_path) as session:
        yield session


OTHERS = sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
"""Pythons of other versions, on a developer's machine."""


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
            "exec(sys.argv[sys.argv.index('-c') + 1])\n"
        )
        stand_in.chmod(0o755)
        error = refusal('exec "$@"', tmp_path, python=str(stand_in))
        assert isinstance(error, NoPython)
        assert f"is {version}, the agent needs 3.9" in error.what

    def test_one_that_knows_no_isolation(self, tmp_path: Path) -> None:
        # What Python 2.7 says.
        words = "Unknown option: -I\\nusage: python [option] ... [-c cmd | -m mod | file | -] [arg]"
        error = refusal(f"printf '{words}\\n' >&2; exit 2", tmp_path)
        assert isinstance(error, NoPython) and "older than 3.4" in error.what

    @pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parts[-3])
    def test_the_real_ones_that_are_here(self, tmp_path: Path, python: Path) -> None:
        said = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info >= (3, 9))"],
            capture_output=True,
            check=True,
        )
        if said.stdout.strip() == b"False":
            error = refusal('exec "$@"', tmp_path, python=str(python))
            assert isinstance(error, NoPython) and "the agent needs 3.9" in error.what
            return
        with start('exec "$@"', tmp_path, str(python), Limits()) as session:
            session.call("files.write", path="@/a", text="x")
            assert session.call("files.tree_digest", path="@/")["files"] == 2

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
        monkeypatch.setattr("deployctl.hosts.link.LONGEST_LINE", 100_000)
        refusal("exec cat /dev/zero", tmp_path)


class TestRequests:
    def test_several_operations_in_one_round_trip(self, session: Session) -> None:
        answers: Sequence[Any] = session.ask(
            [
                Call("files.write", path="@/a", text="x"),
                Call("files.read", path="@/a"),
                Call("files.nothing"),
                Call("files.read", wrong=1),
                Call("files.read", path="@/"),
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
