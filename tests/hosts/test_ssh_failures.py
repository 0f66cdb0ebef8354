"""Hosts that cannot be reached, and hosts that go away."""

from __future__ import annotations

import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings, SshSettings
from deployctl.errors import AccessRefused, ConnectionLost, HostError, UnknownHostKey, Unreachable
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from deployctl.hosts.ways.ssh import SshTransport
from tests.hosts.lab import processes
from tests.hosts.lab.reach import everything, refusal
from tests.hosts.lab.sshd import Sshd, make_key
from tests.hosts.lab.stand_in import PATIENT

TIMELY = 50.0
"""Seconds, however busy this machine is: who waits without a limit waits for longer."""


class TestUnreachable:
    def test_down(self, sshd: Sshd) -> None:
        sshd.stop()
        error = refusal(sshd.settings())
        assert isinstance(error, Unreachable)
        assert "refused" in error.why.lower() or "unable" in error.why.lower()
        assert f"127.0.0.1 port {sshd.port}" in error.what

    def test_three_failures_are_three_messages(self, sshd: Sshd, tmp_path: Path) -> None:
        refused = refusal(sshd.settings(identity_file=str(make_key(tmp_path / "other")), user="x"))
        unknown = refusal(sshd.settings(known_hosts=str(tmp_path / "none")))
        sshd.stop()
        down = refusal(sshd.settings())
        errors = (refused, unknown, down)
        assert [type(error) for error in errors] == [AccessRefused, UnknownHostKey, Unreachable]
        assert len({error.what for error in errors}) == 3
        assert len({error.next for error in errors}) == 3

    def test_a_name_without_an_address(self, sshd: Sshd) -> None:
        error = refusal(sshd.settings(address="no-such-host.invalid"))
        assert "cannot be resolved" in error.what

    def test_a_server_that_says_nothing(self, sshd: Sshd) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            began = time.monotonic()
            port = silent.getsockname()[1]
            error = refusal(sshd.settings(port=port, connect_timeout=0.5))
        assert time.monotonic() - began < TIMELY
        assert isinstance(error, Unreachable) and "does not speak SSH" in error.what

    def test_a_server_that_is_no_ssh_server(self, sshd: Sshd) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:

            def answer() -> None:
                connection, _ = other.accept()
                with connection:
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 200)

            thread = threading.Thread(target=answer)
            thread.start()
            error = refusal(sshd.settings(port=other.getsockname()[1], connect_timeout=60))
            thread.join()
        assert isinstance(error, Unreachable)

    def test_a_server_that_hangs_once_connected(self, sshd: Sshd) -> None:
        way = SshTransport("gpu", SshSettings(**sshd.settings(connect_timeout=60)))
        everything(way.open(["true"]))
        for pid in sshd.sessions():
            processes.send(pid, signal.SIGSTOP)
        way._settings = SshSettings(**sshd.settings(connect_timeout=1))
        began = time.monotonic()
        with pytest.raises(Unreachable, match="does not start a program"):
            way.open(["true"])
        way.close()
        assert time.monotonic() - began < TIMELY

    def test_a_killed_session_is_noticed_at_once(self, sshd: Sshd, tmp_path: Path) -> None:
        host = HostSettings(**sshd.host_settings())
        session = Session(transport(host), root=str(tmp_path), limits=PATIENT)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            caught: list[HostError] = []

            def ask() -> None:
                try:
                    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
                    session.call("network.http", method="GET", url=url, timeout=60)
                except HostError as error:
                    caught.append(error)

            asking = threading.Thread(target=ask)
            asking.start()
            silent.accept()[0].close()
            asking.join(timeout=60)
            began = time.monotonic()
            for pid in sshd.sessions():
                processes.send(pid, signal.SIGKILL)
            with pytest.raises(ConnectionLost) as lost:
                while True:
                    session.call("network.listener", port=1)
            assert time.monotonic() - began < TIMELY < PATIENT.dead
            assert "the connection to the agent ended" in lost.value.what
            assert "attaches to what is running" in lost.value.next
        session.close()
