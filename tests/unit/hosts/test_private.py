"""What deployctl keeps on a host is its user's alone, and a root that is not is not used."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.errors import HostError
from deployctl.hosts.session import Session
from tests.hosts.lab.stand_in import refusal, start

LOGIN = 'umask 022; exec "$@"'
"""What a login shell usually does."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def session(root: Path) -> Iterator[Session]:
    with start(LOGIN, root) as session:
        yield session


def open_to_others(root: Path) -> set[str]:
    """Everything below a root, it included, that others may read, enter or write."""
    found = [root, *root.rglob("*")]
    return {
        str(path.relative_to(root))
        for path in found
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077
    }


def test_all_that_is_kept_is_private(root: Path, session: Session) -> None:
    session.call("releases.lock", profile="p", holder={"run": "r"})
    session.call("releases.record", profile="p", entry={"kind": "k"})
    session.call("files.write", path="@/profiles/p/file", text="x")
    session.call("releases.prepare", profile="p", unit="server", release="r1", environment="e1")
    session.call("releases.seal", profile="p", unit="server", release="r1", manifest={})
    session.call("releases.seal_environment", key="e1", seal={})
    steps = [{"phase": "work", "argv": ["true"], "lock": "@/work.lock"}]
    session.call("jobs.start", id="j", steps=steps)
    session.call("jobs.follow", id="j")
    argv = ["sh", "-c", "exec sleep 60"]
    session.call(
        "units.start", profile="u", unit="server", argv=argv, release="r1", secrets={"A": "b"}
    )
    session.call("units.stop", profile="u", unit="server", grace=1)
    assert open_to_others(root) == set()


def test_what_a_program_makes_elsewhere_is_its_users_matter(
    tmp_path: Path, session: Session
) -> None:
    made = {name: tmp_path / name for name in ("job", "unit", "hook")}
    steps = [{"phase": "work", "argv": ["touch", str(made["job"])]}]
    session.call("jobs.start", id="j", steps=steps)
    session.call("jobs.follow", id="j")
    argv = ["sh", "-c", f"touch {made['unit']}; exec sleep 60"]
    session.call(
        "units.start", profile="u", unit="server", argv=argv, release="r1", supervisor="agent"
    )
    session.call("hooks.run", argv=["touch", str(made["hook"])])
    session.call("units.stop", profile="u", unit="server", grace=1)
    modes = {name: stat.S_IMODE(path.stat().st_mode) for name, path in made.items()}
    assert modes == {"job": 0o644, "unit": 0o644, "hook": 0o644}


def test_a_root_of_an_earlier_version_is_closed(root: Path) -> None:
    (root / "agent").mkdir(parents=True)
    lock = root / "profiles" / "p" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch(0o644)
    for folder in (root, root / "agent"):
        folder.chmod(0o755)
    with start(LOGIN, root) as session:
        assert session.call("releases.lock", profile="p", holder={"run": "r"})["held"]
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_folder_of_other_things_is_not_taken(root: Path) -> None:
    root.mkdir(0o755)
    root.chmod(0o755)
    (root / "letter").touch()
    error = refusal(LOGIN, root)
    assert "not deployctl's alone" in error.what and "mode 755" in error.why
    assert stat.S_IMODE(root.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder away")
class TestOwner:
    def test_a_root_of_somebody_else(self, root: Path) -> None:
        root.mkdir(0o777)
        os.chown(root, 1234, 1234)
        error = refusal(LOGIN, root)
        assert isinstance(error, HostError) and error.exit_code == 4
        assert "belongs to user 1234" in error.why and "root: /path" in error.next

    def test_another_user_cannot_hold_the_lock(self, root: Path, session: Session) -> None:
        session.call("releases.lock", profile="p", holder={"run": "r"})
        assert _of_another_user(root / "profiles" / "p" / "lock") == "PermissionError"


def _of_another_user(path: Path) -> str:
    """What becomes of a lock by flock(2) from a process of another user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "locked"
        try:
            os.setgroups([])
            os.setgid(1234)
            os.setuid(1234)
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
