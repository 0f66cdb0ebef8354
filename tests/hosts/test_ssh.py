"""SSH against a real OpenSSH server: what goes through, and servers of all kinds."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings, SshSettings
from deployctl.errors import ConnectionLost, NoPython, Unreachable
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from deployctl.hosts.tunnel import Tunnel
from deployctl.hosts.ways.ssh import SshTransport
from tests.hosts.lab import processes
from tests.hosts.lab.reach import everything, reach
from tests.hosts.lab.sshd import Sshd


class TestWhatGoesThrough:
    def test_an_agent(self, sshd: Sshd, tmp_path: Path) -> None:
        host = HostSettings(**sshd.host_settings(), root=str(tmp_path))
        with Session(transport(host), root=host.root) as session:
            assert session.root == str(tmp_path)
            session.call("files.write", path="@/a/b", text="x")
            assert session.call("files.read", path="@/a/b")["text"] == "x"
            assert session.round_trips == 2

    def test_a_session_is_closed_when_its_agent_has_left(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("deployctl.hosts.ssh_channel.CLOSE_LIMIT", 60.0)
        host = HostSettings(**sshd.host_settings(), root=str(tmp_path))
        with Session(transport(host), root=host.root) as session:
            slow = session.agent["pid"]
            os.kill(slow, signal.SIGSTOP)
            threading.Timer(0.5, os.kill, (slow, signal.SIGCONT)).start()
        assert not processes.is_alive(slow), "its locks would be held on"

    def test_arguments_byte_for_byte(self, sshd: Sshd) -> None:
        argv = ["printf", "%s|", "a b", "it's", '"$HOME"', "`id`", "\\n", "*", "", "é\n!"]
        assert reach(sshd.settings(), *argv)[0].decode() == "|".join([*argv[2:], ""])

    @pytest.mark.parametrize("status", [0, 7, 255])
    def test_the_exit_status(self, sshd: Sshd, status: int) -> None:
        assert reach(sshd.settings(), "sh", "-c", f"exit {status}") == (b"", status)

    def test_a_program_that_a_signal_ended_has_no_status(self, sshd: Sshd) -> None:
        assert reach(sshd.settings(), "sh", "-c", "kill -9 $$")[1] is None

    def test_both_streams_full(self, sshd: Sshd) -> None:
        # More than SSH's window on stderr, which nobody reads until the end, then on stdout.
        script = "head -c 6000000 /dev/zero >&2; head -c 6000000 /dev/zero; echo last words >&2"
        way = SshTransport("gpu", SshSettings(**sshd.settings()))
        channel = way.open(["sh", "-c", script])
        assert len(everything(channel)) == 6_000_000
        assert channel.ending().stderr.endswith("last words\n")
        way.close()

    def test_several_programs_over_one_connection(self, sshd: Sshd) -> None:
        way = SshTransport("gpu", SshSettings(**sshd.settings()))
        channels = [way.open(["echo", str(number)]) for number in range(3)]
        assert [everything(channel) for channel in channels] == [b"0\n", b"1\n", b"2\n"]
        assert len({p for p in sshd.sessions() if processes.children(p)}) <= 1
        way.close()

    def test_input_reaches_it_and_its_end(self, sshd: Sshd) -> None:
        way = SshTransport("gpu", SshSettings(**sshd.settings()))
        channel = way.open(["head", "-c", "3"])
        channel.send(b"abcdef")
        assert everything(channel) == b"abc"
        channel.close()
        with pytest.raises(OSError):
            channel.send(b"more")
        way.close()

    def test_close_wakes_who_waits(self, sshd: Sshd) -> None:
        way = SshTransport("gpu", SshSettings(**sshd.settings()))
        channel = way.open(["sleep", "60"])
        heard: list[bytes] = []
        waiting = threading.Thread(target=lambda: heard.append(channel.receive()))
        waiting.start()
        channel.close()
        waiting.join(timeout=30)
        assert heard == [b""]
        way.close()


class TestServersOfAllKinds:
    """Servers whose sshd_config says something of its own; they are told apart from a host that
    is down."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "root"

    def restart(self, sshd: Sshd, **options: str) -> HostSettings:
        sshd.stop()
        sshd.options |= options
        sshd.start()
        return HostSettings(**sshd.host_settings("gpu"))

    def test_a_greeting_before_everything(self, sshd: Sshd, root: Path) -> None:
        greeting = 'printf "Welcome\\n\\377 to this machine"; eval "$SSH_ORIGINAL_COMMAND"'
        host = self.restart(sshd, ForceCommand=greeting)
        with Session(transport(host), root=str(root)) as session:
            assert session.call("files.list", path="@/")["exists"] is True

    def test_a_user_that_is_sent_elsewhere(self, sshd: Sshd, root: Path) -> None:
        words = "Please login as the user admin rather than the user root."
        host = self.restart(sshd, ForceCommand=f'echo "{words}"; exit 142')
        with pytest.raises(ConnectionLost, match="status 142") as caught:
            Session(transport(host), root=str(root))
        assert words in caught.value.why

    def test_no_python(self, sshd: Sshd, root: Path) -> None:
        host = HostSettings(**sshd.host_settings("gpu"))
        with pytest.raises(NoPython, match="no python9 on the host") as caught:
            Session(transport(host), root=str(root), python="python9")
        assert "python9" in caught.value.why

    def test_no_sessions(self, sshd: Sshd, root: Path) -> None:
        host = self.restart(sshd, MaxSessions="0")
        with pytest.raises(Unreachable, match="does not start a program"):
            Session(transport(host), root=str(root))

    def test_a_tunnel_needs_no_forwarding(self, sshd: Sshd, root: Path) -> None:
        host = self.restart(sshd, DisableForwarding="yes")
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            Session(transport(host), root=str(root)) as session,
            Tunnel(session, "127.0.0.1", listener.getsockname()[1]) as tunnel,
        ):
            place = ("127.0.0.1", int(tunnel.url.rpartition(":")[2]))
            with socket.create_connection(place) as near:
                far, _ = listener.accept()
                with far:
                    near.sendall(b"question")
                    assert far.recv(100) == b"question"
                    far.sendall(b"answer")
                    assert near.recv(100) == b"answer"
