"""Files of any size sent to a host."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.stream import AHEAD, Stream
from deployctl.hosts.upload import upload
from tests.hosts.builds.waiting import until
from tests.hosts.lab.stand_in import QUICK, start


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

    def test_one_that_is_interrupted_leaves_nothing(
        self, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "source").write_bytes(bytes(5_000_000))
        there = tmp_path / "there"

        def interrupted(stream: Stream[Any]) -> None:
            until(lambda: there.is_dir() and list(there.iterdir()))
            raise KeyboardInterrupt

        monkeypatch.setattr(Stream, "next", interrupted)
        with pytest.raises(KeyboardInterrupt):
            upload(session, tmp_path / "source", "@/there/copy")
        until(lambda: not list(there.iterdir()))

    def test_it_does_not_run_ahead_of_the_host(self, watched: Session, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(bytes(20_000_000))
        sent = 0
        send = watched._link.send

        def count(message: dict[str, object]) -> None:
            nonlocal sent
            sent += len(str(message.get("data", "")))
            send(message)

        watched._link.send = count  # type: ignore[method-assign,assignment]
        os.kill(watched.agent["pid"], signal.SIGSTOP)
        with pytest.raises(ConnectionLost):
            upload(watched, source, "@/copy")
        assert sent < 2 * AHEAD

    def test_a_place_that_cannot_be_written(self, session: Session, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(bytes(10_000_000))
        (tmp_path / "directory").mkdir()
        with pytest.raises(RemoteError, match="is a directory"):
            upload(session, tmp_path / "source", "@/directory")
