"""SSH against a real OpenSSH server: what goes through, and every way in which it cannot."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.host import HostSettings, SshSettings
from deployctl.errors import (
    AccessRefused,
    ChangedHostKey,
    ConnectionLost,
    HostError,
    NoPython,
    UnknownHostKey,
    Unreachable,
)
from deployctl.hosts.interface import Channel
from deployctl.hosts.session import Session
from deployctl.hosts.ssh import SshTransport
from deployctl.hosts.transports import transport
from deployctl.hosts.tunnel import Tunnel
from tests.hosts.lab import processes
from tests.hosts.lab.sshd import Sshd, make_key, public


def reach(settings: dict[str, Any], *argv: str) -> tuple[bytes, int | None]:
    """Run a program over SSH: its output and status."""
    way = SshTransport("gpu", SshSettings(**settings))
    try:
        channel = way.open(argv or ["true"])
        output = everything(channel)
        ending = channel.ending()
        channel.close()
        return output, ending.status
    finally:
        way.close()


def everything(channel: Channel) -> bytes:
    output = b""
    while data := channel.receive():
        output += data
    return output


def refusal(settings: dict[str, Any]) -> HostError:
    """Why the host cannot be reached; connecting leaves neither threads nor processes."""
    before = set(threading.enumerate())
    with pytest.raises(HostError) as caught:
        reach(settings)
    assert set(threading.enumerate()) <= before
    assert caught.value.exit_code == 4 and caught.value.host == "gpu"
    assert caught.value.why and caught.value.next
    return caught.value


@pytest.fixture
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Another server, to come through or to end at."""
    server = Sshd(Path(tmp_path_factory.mktemp("second")))
    server.start()
    yield server
    server.stop()


class TestWhatGoesThrough:
    def test_an_agent(self, sshd: Sshd, tmp_path: Path) -> None:
        host = HostSettings(**sshd.host_settings(), root=str(tmp_path))
        with Session(transport(host), root=host.root) as session:
            assert session.root == str(tmp_path)
            session.call("files.write", path="@/a/b", text="x")
            assert session.call("files.read", path="@/a/b")["text"] == "x"
            assert session.round_trips == 2

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
        waiting.join(timeout=5)
        assert heard == [b""]
        way.close()


class TestConfig:
    def test_the_users_config_is_openssh_s(self, sshd: Sshd, tmp_path: Path) -> None:
        # Include and Match, as in tests/cases/ssh_cron; the alias means nothing to the network.
        (tmp_path / "included.conf").write_text(
            f"Match Host gpu.*\n  HostName 127.0.0.1\n  Port {sshd.port}\n"
            f"  IdentityFile {sshd.directory}/%u\n  User {sshd.settings()['user']}\n"
        )
        (sshd.directory / sshd.settings()["user"]).symlink_to(sshd.user_key)
        config = tmp_path / "config"
        config.write_text(
            f"Include {tmp_path}/*.conf\nMatch all\n  UserKnownHostsFile {sshd.known_hosts}\n"
            "  IdentityAgent none\n"
        )
        found = {"address": "gpu.example", "config_file": str(config)}
        assert reach(found, "echo", "here")[0] == b"here\n"

    def test_the_case_of_the_field(self, tmp_path: Path) -> None:
        from deployctl.hosts.ssh_config import resolve

        case = Path("tests/cases/ssh_cron/ssh_config_include_match.txt")
        config = str(case)
        gpu = resolve("gpu", SshSettings(address="gpu.lab", config_file=config))
        assert gpu.jumps == ("jump",)
        assert gpu.identity_files[0] == f"{Path.home()}/.ssh/{gpu.user}@gpu.ed25519"
        jump = resolve("gpu", SshSettings(address="jump", config_file=config))
        assert (jump.hostname, jump.user) == ("jump.example.net", "hop")
        assert jump.jumps == ()

    def test_a_broken_config_is_shown(self, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text("Hots *\n")
        error = refusal({"address": "gpu", "config_file": str(config)})
        assert "Bad configuration option: hots" in error.why

    def test_a_match_that_hangs_is_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("deployctl.hosts.ssh_config.RESOLVE_LIMIT", 0.3)
        config = tmp_path / "config"
        config.write_text('Match exec "sleep 5"\n  User x\n')
        error = refusal({"address": "gpu", "config_file": str(config)} | {"user": "me"})
        assert "Match exec" in error.next

    def test_without_openssh(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "ssh is not installed here" in refusal({"address": "gpu"}).what


class TestHostKeys:
    def test_unknown(self, sshd: Sshd) -> None:
        sshd.known_hosts.write_text("")
        error = refusal(sshd.settings())
        assert isinstance(error, UnknownHostKey)
        assert fingerprint(sshd.host_key) in error.why
        assert str(sshd.known_hosts) in error.why
        assert "accept_new" in error.next
        assert sshd.known_hosts.read_text() == ""

    def test_changed(self, sshd: Sshd, tmp_path: Path) -> None:
        other = make_key(tmp_path / "other")
        sshd.known_hosts.write_text(f"# a comment\n[127.0.0.1]:{sshd.port} {public(other)}\n")
        error = refusal(sshd.settings(accept_new=True))
        assert isinstance(error, ChangedHostKey)
        assert fingerprint(sshd.host_key) in error.why and fingerprint(other) in error.why
        assert f"{sshd.known_hosts} line 2" in error.why
        assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in error.next

    def test_revoked(self, sshd: Sshd) -> None:
        with sshd.known_hosts.open("a") as file:
            file.write(f"@revoked * {public(sshd.host_key)}\n")
        error = refusal(sshd.settings())
        assert isinstance(error, ChangedHostKey) and "revoked" in error.what

    @pytest.mark.parametrize("form", ["hashed", "pattern", "without the port"])
    def test_known_in_another_form(self, sshd: Sshd, form: str) -> None:
        key = public(sshd.host_key)
        lines = {"pattern": f"[127.0.0.*]:* {key}\n", "without the port": f"127.0.0.1 {key}\n"}
        if form in lines:
            sshd.known_hosts.write_text(lines[form])
        else:
            subprocess.run(
                ["ssh-keygen", "-q", "-H", "-f", sshd.known_hosts], check=True, capture_output=True
            )
            assert sshd.known_hosts.read_text().startswith("|1|")
        assert reach(sshd.settings()) == (b"", 0)

    def test_the_known_type_is_asked_for(self, sshd: Sshd, tmp_path: Path) -> None:
        # Left to itself, paramiko would have the server show its other key, of which nothing
        # is known.
        rsa = make_key(tmp_path / "rsa", "rsa")
        sshd.stop()
        sshd.options["HostKey"] = f"{sshd.host_key}\nHostKey {rsa}"
        sshd.start()
        sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {public(rsa)}\n")
        assert reach(sshd.settings()) == (b"", 0)

    def test_another_type_is_not_a_new_host(self, sshd: Sshd, tmp_path: Path) -> None:
        rsa = make_key(tmp_path / "rsa", "rsa")
        sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {public(rsa)}\n")
        error = refusal(sshd.settings(accept_new=True))
        assert isinstance(error, UnknownHostKey) and "knows only ssh-rsa" in error.why

    def test_accept_new_stores_it(self, sshd: Sshd, tmp_path: Path) -> None:
        files = tmp_path / "new" / "known_hosts"
        settings = sshd.settings(known_hosts=str(files), accept_new=True)
        assert reach(settings) == (b"", 0)
        assert files.read_text() == f"[127.0.0.1]:{sshd.port} {public(sshd.host_key)}\n"
        assert stat.S_IMODE(files.stat().st_mode) == 0o600
        assert stat.S_IMODE(files.parent.stat().st_mode) == 0o700
        assert reach(sshd.settings(known_hosts=str(files))) == (b"", 0)
        assert len(files.read_text().splitlines()) == 1

    def test_accept_new_keeps_what_stands_there(self, sshd: Sshd) -> None:
        sshd.known_hosts.write_text("other.example ssh-ed25519 AAAA")
        assert reach(sshd.settings(accept_new=True)) == (b"", 0)
        first, second = sshd.known_hosts.read_text().splitlines()
        assert first == "other.example ssh-ed25519 AAAA" and public(sshd.host_key) in second

    def test_accept_new_hashes_where_the_config_does(self, sshd: Sshd) -> None:
        sshd.known_hosts.write_text("")
        with sshd.config_file().open("a") as file:
            file.write("  HashKnownHosts yes\n")
        assert reach(sshd.settings(accept_new=True)) == (b"", 0)
        assert sshd.known_hosts.read_text().startswith("|1|")
        assert reach(sshd.settings()) == (b"", 0)

    def test_the_config_cannot_accept_for_us(self, sshd: Sshd) -> None:
        sshd.known_hosts.write_text("")
        with sshd.config_file().open("a") as file:
            file.write("  StrictHostKeyChecking no\n")
        assert isinstance(refusal(sshd.settings()), UnknownHostKey)


class TestUserKeys:
    def test_refused(self, sshd: Sshd, tmp_path: Path) -> None:
        other = make_key(tmp_path / "other")
        sshd.config_file().write_text("IdentitiesOnly yes\nIdentityAgent none\n")
        error = refusal(sshd.settings(identity_file=str(other)))
        assert isinstance(error, AccessRefused)
        assert f"{other} {fingerprint(other)}: refused" in error.why
        assert "identity_file" in error.next

    def test_no_key_at_all(self, sshd: Sshd, tmp_path: Path) -> None:
        sshd.config_file().write_text("IdentityAgent none\nIdentityFile none\n")
        error = refusal(sshd.settings(identity_file=None))
        assert isinstance(error, AccessRefused) and "no key to offer" in error.why

    def test_a_key_that_does_not_exist(self, sshd: Sshd, tmp_path: Path) -> None:
        sshd.config_file().write_text("IdentityAgent none\nIdentitiesOnly yes\n")
        error = refusal(sshd.settings(identity_file=str(tmp_path / "missing")))
        assert f"{tmp_path}/missing: no such file" in error.why

    def test_a_passphrase_is_never_asked_for(self, sshd: Sshd) -> None:
        lock_key(sshd.user_key, "secret")
        error = refusal(sshd.settings())
        assert isinstance(error, AccessRefused)
        assert "needs a passphrase: hand it to a key agent" in error.why

    def test_an_agent_holds_the_key(self, sshd: Sshd, agent: str) -> None:
        subprocess.run(
            ["ssh-add", "-q", sshd.user_key],
            env={**os.environ, "SSH_AUTH_SOCK": agent},
            check=True,
            capture_output=True,
        )
        lock_key(sshd.user_key, "secret")
        sshd.config_file().write_text(f"IdentityAgent {agent}\nIdentitiesOnly yes\n")
        assert reach(sshd.settings()) == (b"", 0)
        # Without a file that names it, IdentitiesOnly keeps the agent's key back.
        error = refusal(sshd.settings(identity_file=None))
        assert isinstance(error, AccessRefused)
        sshd.config_file().write_text(f"IdentityAgent {agent}\n")
        assert reach(sshd.settings(identity_file=None)) == (b"", 0)

    def test_an_agent_that_is_gone(self, sshd: Sshd, tmp_path: Path) -> None:
        sshd.config_file().write_text(f"IdentityAgent {tmp_path}/gone\n")
        assert reach(sshd.settings()) == (b"", 0)

    @pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
    def test_other_kinds_of_keys(self, sshd: Sshd, tmp_path: Path, kind: str) -> None:
        key = make_key(tmp_path / kind, kind)
        Path(f"{sshd.user_key}.pub").write_text(Path(f"{key}.pub").read_text())
        assert reach(sshd.settings(identity_file=str(key))) == (b"", 0)

    def test_more_keys_than_the_server_takes(self, sshd: Sshd, tmp_path: Path) -> None:
        sshd.stop()
        sshd.options["MaxAuthTries"] = "2"
        sshd.start()
        others = [make_key(tmp_path / str(number)) for number in range(4)]
        lines = "".join(f"IdentityFile {key}\n" for key in [*others, sshd.user_key])
        sshd.config_file().write_text(f"IdentityAgent none\n{lines}")
        error = refusal(sshd.settings(identity_file=None))
        assert isinstance(error, AccessRefused) and "hung up" in error.why
        assert str(others[0]) in error.why and str(others[3]) not in error.why
        # The key that the host file names is offered first.
        assert reach(sshd.settings()) == (b"", 0)

    def test_a_server_that_takes_passwords_alone(self, sshd: Sshd) -> None:
        sshd.stop()
        sshd.options |= {"PubkeyAuthentication": "no", "PasswordAuthentication": "yes"}
        sshd.start()
        error = refusal(sshd.settings())
        assert isinstance(error, AccessRefused) and "password" in error.why


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
        assert time.monotonic() - began < 5
        assert isinstance(error, Unreachable) and "does not speak SSH" in error.what

    def test_a_server_that_is_no_ssh_server(self, sshd: Sshd) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:

            def answer() -> None:
                connection, _ = other.accept()
                with connection:
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 200)

            thread = threading.Thread(target=answer)
            thread.start()
            error = refusal(sshd.settings(port=other.getsockname()[1], connect_timeout=2))
            thread.join()
        assert isinstance(error, Unreachable)

    def test_a_server_that_hangs_once_connected(self, sshd: Sshd) -> None:
        way = SshTransport("gpu", SshSettings(**sshd.settings(connect_timeout=1)))
        everything(way.open(["true"]))
        for pid in sshd.sessions():
            processes.send(pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(Unreachable, match="does not start a program"):
            way.open(["true"])
        way.close()
        assert time.monotonic() - began < 5

    def test_a_killed_session_is_noticed_at_once(self, sshd: Sshd, tmp_path: Path) -> None:
        host = HostSettings(**sshd.host_settings())
        session = Session(transport(host), root=str(tmp_path))
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
            asking.join(timeout=20)
            began = time.monotonic()
            for pid in sshd.sessions():
                processes.send(pid, signal.SIGKILL)
            with pytest.raises(ConnectionLost) as lost:
                while True:
                    session.call("network.listener", port=1)
            assert time.monotonic() - began < 3
            assert "takes up what is running" in lost.value.next
        session.close()


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


class TestRoutes:
    def test_through_a_chain_of_jump_hosts(self, sshd: Sshd, second: Sshd, tmp_path: Path) -> None:
        config = route(tmp_path, sshd, second, "Host far\n  ProxyJump near,near2\n")
        found = {"address": "far", "config_file": str(config)}
        output, status = reach(found, "sh", "-c", "echo $SSH_CONNECTION")
        assert status == 0
        assert output.split()[-1].decode() == str(second.port)

    def test_a_jump_host_with_a_jump_host(self, sshd: Sshd, second: Sshd, tmp_path: Path) -> None:
        rules = "Host far\n  ProxyJump near2\nHost near2\n  ProxyJump near\n"
        config = route(tmp_path, sshd, second, rules)
        assert reach({"address": "far", "config_file": str(config)}) == (b"", 0)

    def test_a_circle_is_an_error(self, sshd: Sshd, second: Sshd, tmp_path: Path) -> None:
        rules = "Host far\n  ProxyJump near\nHost near\n  ProxyJump near2\n"
        rules += "Host near2\n  ProxyJump near\n"
        config = route(tmp_path, sshd, second, rules)
        error = refusal({"address": "far", "config_file": str(config)})
        assert "jump hosts" in error.what and "leads to itself" in error.next

    def test_what_a_jump_host_cannot_reach(self, sshd: Sshd, second: Sshd, tmp_path: Path) -> None:
        second.stop()
        config = route(tmp_path, sshd, second, "Host far\n  ProxyJump near\n")
        error = refusal({"address": "far", "config_file": str(config)})
        assert isinstance(error, Unreachable)
        assert f"port {second.port} through 127.0.0.1" in error.what
        assert "jump host" in error.next

    def test_a_jump_hosts_own_key_is_checked(
        self, sshd: Sshd, second: Sshd, tmp_path: Path
    ) -> None:
        config = route(tmp_path, sshd, second, "Host far\n  ProxyJump near\n")
        known = tmp_path / "known_hosts"
        known.write_text(second.known_hosts.read_text())
        error = refusal({"address": "far", "config_file": str(config)})
        assert isinstance(error, UnknownHostKey) and str(sshd.port) in error.what

    def test_a_proxy_command(self, sshd: Sshd, tmp_path: Path) -> None:
        relay = tmp_path / "relay.py"
        relay.write_text(RELAY)
        add(sshd, f"ProxyCommand python3 {relay} %h %p")
        settings = sshd.settings()
        before = set(processes.children(os.getpid()))
        assert reach(settings, "echo", "x") == (b"x\n", 0)
        assert set(processes.children(os.getpid())) <= before

    def test_a_proxy_command_that_fails(self, sshd: Sshd) -> None:
        add(sshd, "ProxyCommand echo no way to %h >&2; exit 1")
        began = time.monotonic()
        error = refusal(sshd.settings())
        assert isinstance(error, Unreachable)
        assert "no way to 127.0.0.1" in error.why
        assert time.monotonic() - began < 5


RELAY = """\
import socket, sys, threading, os
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def out():
    while data := there.recv(65536):
        os.write(1, data)
    os._exit(0)
threading.Thread(target=out, daemon=True).start()
while data := os.read(0, 65536):
    there.sendall(data)
"""


def fingerprint(key: Path) -> str:
    done = subprocess.run(
        ["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()[1]


def lock_key(key: Path, passphrase: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-N", passphrase, "-f", key], check=True, capture_output=True
    )


def add(server: Sshd, line: str) -> None:
    with server.config_file().open("a") as file:
        file.write(f"  {line}\n")


def route(directory: Path, near: Sshd, far: Sshd, rules: str) -> Path:
    """An ssh_config in which `near` and `near2` are one server, and `far` the other."""
    known = directory / "known_hosts"
    known.write_text(near.known_hosts.read_text() + far.known_hosts.read_text())
    hosts = (("near", near), ("near2", near), ("far", far))
    names = "".join(
        f"Host {name}\n  HostName 127.0.0.1\n  Port {server.port}\n"
        f"  IdentityFile {server.user_key}\n"
        for name, server in hosts
    )
    common = (
        f"Host *\n  User {near.settings()['user']}\n  UserKnownHostsFile {known}\n"
        "  GlobalKnownHostsFile none\n  IdentityAgent none\n  IdentitiesOnly yes\n"
    )
    config = directory / "config"
    config.write_text(rules + names + common)
    return config


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """A real ssh-agent without keys."""
    path = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    yield str(path)
    process.terminate()
    process.wait()
