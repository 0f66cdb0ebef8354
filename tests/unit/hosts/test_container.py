from __future__ import annotations

from collections.abc import Sequence

import pytest

from deployctl.config.host import ContainerSettings
from deployctl.errors import HostError
from deployctl.hosts.interface import Ending
from deployctl.hosts.ways.container import CLEAN, ContainerTransport


class StandInChannel:
    def __init__(self, said: bytes, ending: Ending) -> None:
        self._said = [said]
        self._ending = ending

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes:
        return self._said.pop() if self._said else b""

    def ending(self) -> Ending:
        return self._ending

    def close(self) -> None: ...


class StandInNode:
    """A node whose LXC says one thing about every container."""

    name = "pve"

    def __init__(self, state: str, words: str = "") -> None:
        self._channel = StandInChannel(state.encode(), Ending(0 if state else 1, words))
        self.asked: list[Sequence[str]] = []

    def open(self, argv: Sequence[str]) -> StandInChannel:
        self.asked.append(argv)
        return self._channel

    def explain(self, ending: Ending | None) -> HostError | None:
        return None

    def close(self) -> None: ...


PCT = ContainerSettings(id="129")
LXC = ContainerSettings(id="gpu", via="lxc-attach", lxc_path="/srv/lxc")


def test_an_argv_stays_an_argv() -> None:
    node = StandInNode("RUNNING")
    argv = ["python3", "-c", "print('`$HOME`')", "a b"]
    ContainerTransport("ct", PCT, node).open(argv)
    ContainerTransport("ct", LXC, node).open(argv)
    assert node.asked == [
        [*CLEAN, "pct", "exec", "129", "--", *argv],
        [*CLEAN, "lxc-attach", "-P", "/srv/lxc", "-n", "gpu", "--", *argv],
    ]


def test_the_nodes_environment_stays_there_and_pct_is_found() -> None:
    assert CLEAN[:2] == ("env", "-i")
    assert any(part.startswith("PATH=") and "/usr/sbin" in part for part in CLEAN)


@pytest.mark.parametrize(
    ("state", "words", "what", "todo"),
    [
        ("STOPPED\n", "", "container 129 on pve is not running", "pct start 129 on pve"),
        ("STOPPING\n", "", "container 129 on pve is not running", "pct start 129 on pve"),
        ("FROZEN\n", "", "container 129 on pve is frozen", "pct resume 129 on pve"),
        ("", "129 doesn't exist\n", "container 129 on pve does not exist", "lxc-ls on pve"),
    ],
)
def test_why_a_container_cannot_be_entered(state: str, words: str, what: str, todo: str) -> None:
    error = ContainerTransport("ct", PCT, StandInNode(state, words)).explain(Ending(255, "why"))
    assert error is not None and error.exit_code == 4
    assert error.what == f"ct: {what}"
    assert "why" in error.why
    assert todo in error.next


def test_a_container_that_runs_is_not_the_reason() -> None:
    transport = ContainerTransport("ct", PCT, StandInNode("RUNNING\n"))
    assert transport.explain(Ending(127, "no python3")) is None


def test_a_machine_that_is_no_node() -> None:
    node = StandInNode("RUNNING\n")
    missing = Ending(127, "env: 'pct': No such file or directory")
    error = ContainerTransport("ct", PCT, node).explain(missing)
    assert error is not None and error.what == "ct: pve has no pct"
    assert node.asked == []
