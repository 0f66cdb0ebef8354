"""A login that begins in a folder that others may write to: no Python there imports from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.lab.sshd import Sshd
from tests.unit.hosts.test_isolation import Trap


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    trap = Trap(tmp_path / "trap")
    yield trap
    assert trap.sprung == ""


@pytest.fixture
def trapped(trap: Trap, tmp_path: Path) -> Iterator[HostSettings]:
    """A host whose sshd runs everything there, with a PYTHONPATH that names it too."""
    command = f'cd {trap.folder} && PYTHONPATH=: exec sh -c "$SSH_ORIGINAL_COMMAND"'
    directory = tmp_path / "sshd"
    directory.mkdir()
    server = Sshd(directory, {"ForceCommand": command})
    server.start()
    try:
        yield HostSettings(**server.host_settings(), root=str(tmp_path / "root"))
    finally:
        server.stop()


def test_an_agent_its_children_and_its_jobs(trapped: HostSettings, trap: Trap) -> None:
    # Its program is sent the first time, and is there the second.
    for _ in range(2):
        with Session(transport(trapped), root=trapped.root) as session:
            source = "import base64, os\ndef f(): return os.getcwd()"
            place = session.call("modules.run", source=source, function="f")
            assert place == str(trap.folder), "the login does not begin there"
            session.call("environment.tools")
            log = trap.folder / "log"
            log.write_text("")
            argv = ["@agent", "chore", "refuse", str(log), "never"]
            step = {"phase": "refuse", "argv": argv, "cwd": str(trap.folder)}
            session.call("jobs.start", id="a", steps=[step])
            assert session.call("jobs.follow", id="a")["state"] == "done"
