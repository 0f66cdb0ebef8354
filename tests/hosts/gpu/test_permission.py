"""A user who is not root sees and stops less, and is told so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deployctl.hosts.interface import Ending
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalChannel
from tests.hosts.gpu.machine import GpuMachine

pytestmark = pytest.mark.lab


class Unprivileged:
    """The way to the node's agent for the user `nobody`."""

    name = "node"

    def __init__(self, gpus: GpuMachine) -> None:
        self._pid = str(gpus.node.pid)

    def open(self, argv: Sequence[str]) -> LocalChannel:
        enter = ["nsenter", "-t", self._pid, "-m", "-p", "-n", "--"]
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
        return LocalChannel([*enter, *user, *argv])

    def explain(self, ending: Ending | None) -> None:
        """It knows no more than the ending says."""

    def close(self) -> None:
        """Nothing is kept open."""


def test_tables_of_others_are_named_as_unread_and_nothing_of_theirs_is_stopped(
    gpus: GpuMachine,
) -> None:
    pid = gpus.hold(gpus.node, "VLLM::EngineCore")
    with Session(Unprivileged(gpus), root="/tmp/nobody") as agent:
        look = agent.call("gpu.holders", patterns=["VLLM"])
        entry = next(entry for entry in look["processes"] if entry["pid"] == pid)
        assert entry["devices"] == [] and entry["unreadable"] == ["ns", "fd", "maps"]
        assert look["unreadable_count"] >= 1
        target = {"pid": pid, "start": entry["start"], "device": False}
        (row,) = agent.call("gpu.stop", targets=[target], grace=0.2, patience=0.2)
    assert row["fate"] == "refused"
    assert gpus.alive(gpus.node, pid)
