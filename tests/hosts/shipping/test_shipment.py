"""Folders brought to hosts behind real sshds: whole, cut off and resumed, damaged, attached to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.cancel import Cancelled, Token, watching
from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.shipping import shipment
from deployctl.hosts.shipping.parties import Party, Receiver
from deployctl.hosts.shipping.shipment import Shipment
from deployctl.hosts.transports import transport
from tests.hosts.lab import processes
from tests.hosts.lab.sshd import Sshd

MB = 1_000_000
FOLDER = "@/models/toy"


class Hosts:
    """A source on this machine, and receivers behind an sshd each."""

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self.directory = directory
        self.sshds: dict[str, Sshd] = {}
        self.parties: list[Party] = []
        for name in names:
            (directory / name).mkdir()
            self.sshds[name] = Sshd(directory / name)
            self.sshds[name].start()
        self.source = self.party({"name": "source", "local": True})

    def party(self, settings: dict[str, Any]) -> Party:
        root = self.directory / settings["name"] / "root"
        made = HostSettings(**{**settings, "root": str(root)})
        party = Party(made, Session(transport(made), root=made.root), "127.0.0.1")
        self.parties.append(party)
        return party

    def fill(self, size: int) -> Path:
        """The source's folder with a big and a small file."""
        folder = self.directory / "source" / "root" / "models" / "toy"
        folder.mkdir(parents=True)
        (folder / "weights.bin").write_bytes(os.urandom(size))
        (folder / "config.json").write_text("{}")
        return folder

    def receivers(self) -> list[Receiver]:
        """All of them, each reached anew."""
        settings = [server.host_settings(name) for name, server in self.sshds.items()]
        return [Receiver(self.party(one), FOLDER) for one in settings]

    def whole(self, name: str) -> bool:
        """Whether a host has the very files of the source."""
        here, there = (
            self.directory / host / "root" / "models" / "toy" for host in ("source", name)
        )
        files = [path for path in here.rglob("*") if path.is_file()]
        return there.is_dir() and all(
            (there / path.relative_to(here)).read_bytes() == path.read_bytes() for path in files
        )

    def stop(self) -> None:
        for party in self.parties:
            party.session.close()
        for server in self.sshds.values():
            server.stop()


Make = Callable[..., Hosts]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Hosts] = []

    def hosts(*names: str) -> Hosts:
        made.append(Hosts(tmp_path, names))
        return made[-1]

    yield hosts
    for one in made:
        one.stop()


def test_cut_in_the_middle_and_resumed(make: Make) -> None:
    """One of two receivers loses its connections after a piece; the other one gets everything."""
    hosts = make("one", "two")
    hosts.fill(48 * MB)
    first, second = hosts.receivers()
    sent = Shipment(hosts.source, FOLDER, [first, second], "controller")

    def cut(receiver: Receiver, count: int) -> None:
        if receiver is second:
            for pid in hosts.sshds["two"].sessions():
                processes.send(pid, signal.SIGKILL)

    sent.tell = cut
    sent.run()
    assert first.failure is None and hosts.whole("one")
    assert second.failure is not None and not hosts.whole("two")

    (again,) = [one for one in hosts.receivers() if one.name == "two"]
    Shipment(hosts.source, FOLDER, [again], "controller").run()
    assert again.failure is None and again.kept > 0
    assert hosts.whole("two")


def test_a_damaged_piece_is_named(make: Make) -> None:
    hosts = make("one")
    folder = hosts.fill(20 * MB)
    hosts.source.session.call("shipping.describe", folder=FOLDER)
    damage(folder / "weights.bin", at=9 * MB)
    (receiver,) = hosts.receivers()
    Shipment(hosts.source, FOLDER, [receiver], "controller").run()
    assert receiver.failure is not None
    assert "piece 1 (weights.bin bytes 838" in receiver.failure.why
    assert "source" in receiver.failure.what and not hosts.whole("one")


def test_from_host_to_host_and_attached_to(make: Make) -> None:
    """The first controller is interrupted while the hosts go on; the second one attaches."""
    hosts = make("one", "two")
    hosts.fill(60 * MB)
    token = Token()
    stopped: list[int] = []

    def interrupt(receiver: Receiver, count: int) -> None:
        if not stopped:
            stopped.extend(sender(hosts))
            for pid in stopped:
                processes.send(pid, signal.SIGSTOP)
            token.cancel()

    first = Shipment(hosts.source, FOLDER, hosts.receivers(), "relay")
    first.tell = interrupt
    with watching(token), pytest.raises(Cancelled):
        first.run()

    notes: list[str] = []

    def go_on(text: str) -> None:
        notes.append(text)
        for pid in stopped:
            processes.send(pid, signal.SIGCONT)

    again = hosts.receivers()
    second = Shipment(hosts.source, FOLDER, again, "relay", note=go_on)
    second.run()
    assert [one.failure for one in again] == [None, None]
    assert hosts.whole("one") and hosts.whole("two")
    assert "attached" in notes[0]


def test_a_host_that_is_not_reached_by_others_is_named(make: Make) -> None:
    hosts = make("one", "two")
    hosts.fill(1 * MB)
    receivers = hosts.receivers()
    # Nobody can be at an address of "this network" (RFC 6890).
    closed = Party(receivers[0].party.settings, receivers[0].party.session, "0.0.0.1")
    receivers[0].party = closed
    Shipment(hosts.source, FOLDER, receivers, "relay").run()
    assert all(one.failure is not None for one in receivers)
    assert "0.0.0.1" in str(receivers[0].failure) and "share.way" in str(receivers[0].failure)


@pytest.mark.parametrize(("worth", "rest"), [(0.0, "relay"), (1e9, "")])
def test_the_faster_way_is_measured(
    make: Make, monkeypatch: pytest.MonkeyPatch, worth: float, rest: str
) -> None:
    """Each way gets a part, and the faster one the rest; where that takes no time, none is tried.
    What goes through the controller is slowed down."""
    monkeypatch.setattr(shipment, "PROBE", 2)
    monkeypatch.setattr(shipment, "WORTH", worth)
    hosts, notes = make("one", "two"), list[str]()
    hosts.fill(48 * MB)
    receivers, never = hosts.receivers(), threading.Event()

    def slowed(receiver: Receiver, count: int) -> None:
        if rest and receiver.ways[-1] == "controller":
            # Far longer than a busy machine takes for the same by the other way.
            never.wait(5.0)

    sent = Shipment(hosts.source, FOLDER, receivers, note=notes.append, tell=slowed)
    sent.run()
    assert [one.failure for one in receivers] == [None, None]
    assert hosts.whole("one") and hosts.whole("two")
    if not rest:
        assert [*sent.figures] == ["controller"] and not notes
        return
    assert notes[0].startswith(f"the rest goes by {rest}: ")
    assert sent.figures[rest]["bytes"] > sent.figures["controller"]["bytes"]


def test_hosts_that_do_not_reach_each_other_get_the_rest_from_the_controller(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipment, "PROBE", 1)
    monkeypatch.setattr(shipment, "WORTH", 0.0)
    hosts, notes = make("one", "two"), list[str]()
    hosts.fill(32 * MB)
    receivers = hosts.receivers()
    # Nobody can be at an address of "this network" (RFC 6890).
    receivers[0].party = Party(receivers[0].party.settings, receivers[0].party.session, "0.0.0.1")
    Shipment(hosts.source, FOLDER, receivers, note=notes.append).run()
    assert [one.failure for one in receivers] == [None, None], notes
    assert hosts.whole("one") and hosts.whole("two")
    assert notes[0].startswith("not from host to host: ")


def sender(hosts: Hosts) -> list[int]:
    """The processes of the source's job."""
    (job,) = hosts.source.session.call("jobs.listing")
    return list(job["members"])


def damage(path: Path, at: int) -> None:
    """Other bytes in a file that looks as it did."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"damaged")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
