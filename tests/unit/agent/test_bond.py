"""What holds a group's supervisors together, over the loopback."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from deployctl.agent.supervision.bond import Bond
from deployctl.agent.wire.bonds import BondSpec
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port


@dataclass(frozen=True)
class Group:
    """So many ranks, whose head listens on a port of its own."""

    ranks: int = 2
    port: int = field(default_factory=free_port)

    def of(self, rank: int, token: str = "word") -> BondSpec:
        """What a rank's start is given."""
        return {
            "rank": rank,
            "ranks": self.ranks,
            "address": "127.0.0.1",
            "port": self.port,
            "token": token,
        }


def test_one_that_ends_is_lost_to_the_other() -> None:
    spec = Group().of
    with Bond(spec(1)) as worker:
        with Bond(spec(0)) as head:
            wait_for("the head to be whole", head.whole.is_set)
            wait_for("the worker to be whole", worker.whole.is_set)
            assert (head.lost, worker.lost) == ("", "")
        wait_for("the worker to notice", lambda: worker.lost)
        assert worker.lost == "rank 0 has ended"


def test_the_head_is_whole_once_all_are_there_and_names_the_one_that_left() -> None:
    spec = Group(3).of
    with Bond(spec(0)) as head, Bond(spec(1)):
        with Bond(spec(2)):
            wait_for("all three", head.whole.is_set)
        wait_for("the head to notice", lambda: head.lost)
        assert head.lost == "rank 2 has ended"


def test_another_start_and_a_stranger_are_not_let_in() -> None:
    spec = Group().of
    with Bond(spec(0)) as head, Bond(spec(1, "of another start")) as other:
        stranger = spec(0)
        wait_for("a door", lambda: _connects(stranger))
        with socket.create_connection((stranger["address"], stranger["port"])) as knocking:
            knocking.sendall(b"word 7\n")
            assert knocking.recv(1) == b""
        assert not head.whole.is_set() and not other.whole.is_set() and head.lost == ""
        with Bond(spec(1)):
            wait_for("the head to be whole", head.whole.is_set)


def _connects(spec: BondSpec) -> bool:
    try:
        socket.create_connection((spec["address"], spec["port"])).close()
    except OSError:
        return False
    return True
