"""Where an address leads: the user's ssh_config, jump hosts, proxy commands."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.config.host import SshSettings
from deployctl.errors import UnknownHostKey, Unreachable
from deployctl.hosts.ssh_config import resolve
from tests.hosts.lab import processes
from tests.hosts.lab.reach import add, reach, refusal
from tests.hosts.lab.sshd import Sshd


@pytest.fixture
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Another server, to come through or to end at."""
    server = Sshd(Path(tmp_path_factory.mktemp("second")))
    server.start()
    yield server
    server.stop()


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

    @pytest.mark.parametrize("before", ["", "sleep 0.5; "], ids=["closed", "reset"])
    def test_a_proxy_command_that_fails(self, sshd: Sshd, before: str) -> None:
        """One that ends without having read what we sent resets the connection."""
        add(sshd, f"ProxyCommand sh -c '{before}echo no way to %h >&2; exit 1'")
        began = time.monotonic()
        error = refusal(sshd.settings(connect_timeout=60))
        assert isinstance(error, Unreachable)
        assert "ended with 1" in error.what and "no way to 127.0.0.1" in error.why
        assert "Error" not in error.why.partition("; ProxyCommand")[0]
        assert time.monotonic() - began < 50


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
