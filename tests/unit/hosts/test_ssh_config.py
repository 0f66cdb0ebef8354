from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.config.host import SshSettings
from deployctl.hosts.ssh_config import endpoint, expanded, hop, parse

SAID = """\
host gpu
user hop
hostname gpu.example.net
port 2200
hashknownhosts yes
identitiesonly yes
stricthostkeychecking accept-new
identityagent none
identityfile ~/keys/%r@%h.key
identityfile %d/.ssh/second
globalknownhostsfile /etc/ssh/ssh_known_hosts
userknownhostsfile /k/known_hosts /k/known_hosts2
proxyjump a@j1:2222,j2
"""


def test_what_openssh_resolves_is_taken_over() -> None:
    found = endpoint(SshSettings(address="gpu"), SAID, {})
    assert (found.hostname, found.port, found.user) == ("gpu.example.net", 2200, "hop")
    home = Path.home()
    assert found.identity_files == (
        f"{home}/keys/hop@gpu.example.net.key",
        f"{home}/.ssh/second",
    )
    assert found.known_hosts == (
        "/k/known_hosts",
        "/k/known_hosts2",
        "/etc/ssh/ssh_known_hosts",
    )
    assert found.jumps == ("a@j1:2222", "j2")
    assert found.identities_only and found.hash_known_hosts
    assert found.agent is None
    assert found.proxy_command is None
    assert found.known_as == "gpu.example.net"


def test_the_host_file_comes_first() -> None:
    settings = SshSettings(address="gpu", identity_file="/mine", known_hosts="/my/known_hosts")
    found = endpoint(settings, SAID, {})
    assert found.identity_files[0] == "/mine"
    assert found.known_hosts == ("/my/known_hosts",)


@pytest.mark.parametrize(
    ("line", "agent"),
    [
        ("", "/run/agent"),
        ("identityagent SSH_AUTH_SOCK", "/run/agent"),
        ("identityagent $SSH_AUTH_SOCK", "/run/agent"),
        ("identityagent /other/%r", "/other/me"),
        ("identityagent none", None),
    ],
)
def test_the_key_agent(line: str, agent: str | None) -> None:
    said = f"hostname h\nuser me\nport 22\n{line}\n"
    found = endpoint(SshSettings(address="h"), said, {"SSH_AUTH_SOCK": "/run/agent"})
    assert found.agent == agent


def test_no_agent_under_cron() -> None:
    assert endpoint(SshSettings(address="h"), "hostname h\nuser me\nport 22\n", {}).agent is None


def test_an_alias_for_the_host_key_is_its_name_in_known_hosts() -> None:
    said = "hostname 10.0.0.1\nuser me\nport 22\nhostkeyalias gpu\nproxycommand nc %h %p %k %%\n"
    found = endpoint(SshSettings(address="h"), said, {})
    assert found.known_as == "gpu"
    assert found.proxy_command == "nc 10.0.0.1 22 gpu %"


def test_tokens_and_variables() -> None:
    assert expanded("${A}/%h/%x/${B}", {"h": "host"}, {"A": "a"}) == "a/host/%x/${B}"


def test_a_key_may_come_several_times() -> None:
    assert parse("IdentityFile a\nidentityfile b\n") == {"identityfile": ["a", "b"]}


@pytest.mark.parametrize(
    ("jump", "address", "user", "port"),
    [
        ("j", "j", None, None),
        ("me@j:22", "j", "me", 22),
        ("a@b@j", "j", "a@b", None),
        ("ssh://me@j:2222/", "j", "me", 2222),
        ("[fe80::1]:23", "fe80::1", None, 23),
        ("fe80::1", "fe80::1", None, None),
    ],
)
def test_a_jump_host(jump: str, address: str, user: str | None, port: int | None) -> None:
    target = SshSettings(
        address="gpu",
        user="root",
        port=9,
        identity_file="/mine",
        known_hosts="/mine",
        config_file="/c",
        accept_new=True,
        connect_timeout=3,
    )
    found = hop(target, jump)
    assert (found.address, found.user, found.port) == (address, user, port)
    # As with `ssh -J`: the target's key and names are the target's alone, the config is shared.
    assert found.identity_file is None and found.known_hosts is None
    assert found.config_file == "/c" and not found.accept_new and found.connect_timeout == 3
