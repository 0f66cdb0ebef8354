"""Every option of `ssh -G`: honoured, harmless, beyond paramiko, or refused by its name."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.config.host import SshSettings
from deployctl.errors import AccessRefused, ChangedHostKey, HostError, UnknownHostKey, Unreachable
from deployctl.hosts import ssh_options
from deployctl.hosts.ssh_config import defaults, parse
from deployctl.hosts.ways.ssh_program import command, failure


def judged(*lines: str) -> list[ssh_options.Judged]:
    argv = ["ssh", "-G", "-F", "none", *(word for line in lines for word in ("-o", line))]
    done = subprocess.run([*argv, "gpu.example"], capture_output=True, text=True, check=True)
    return ssh_options.judge(parse(done.stdout), defaults())


def test_every_option_of_this_openssh_is_in_the_table() -> None:
    found = judged()
    assert [one.option for one in found if one.verdict == "unknown"] == []
    assert not ssh_options.beyond(found) and not ssh_options.refused(found)


@pytest.mark.parametrize(
    "line",
    [
        "CertificateFile ~/.ssh/signed-cert.pub",  # ronf/asyncssh#337, StackStorm/st2#5530
        "RevokedHostKeys /etc/ssh/revoked",
        "ProxyUseFdpass yes",  # net-ssh/net-ssh#496, systemd PR 30777
        "Ciphers aes256-ctr",
        "MACs -hmac-sha1",
        "KexAlgorithms +diffie-hellman-group14-sha1",  # old appliances
        "HostKeyAlgorithms +ssh-rsa",
        "PubkeyAcceptedAlgorithms +ssh-rsa",
        "CASignatureAlgorithms +ssh-rsa",
        "AddressFamily inet6",
        "BindAddress 10.0.0.1",
        "BindInterface tun0",
        "ControlMaster auto",  # a master with a second factor, opened by hand
        "ControlPath ~/.ssh/%C",
        "KnownHostsCommand /usr/bin/sss_ssh_knownhosts %H",  # sssd
        "VerifyHostKeyDNS yes",
        "HostbasedAuthentication yes",
        "PKCS11Provider /usr/lib/opensc-pkcs11.so",
    ],
)
def test_what_ssh_can_and_paramiko_cannot(line: str) -> None:
    (one,) = ssh_options.beyond(judged(line))
    assert one.option == line.split()[0].lower() and one.why and one.verdict == "honoured"


@pytest.mark.parametrize(
    "line", ["PubkeyAuthentication no", "PreferredAuthentications password,keyboard-interactive"]
)
def test_what_lets_nobody_in_is_refused_by_name(line: str) -> None:
    (one,) = ssh_options.refused(judged(line))
    assert line.split()[0] in one.why


@pytest.mark.parametrize(
    "line",
    [
        "ForwardAgent yes",
        "LocalForward 8080 localhost:80",
        "ServerAliveInterval 60",
        "RemoteCommand tmux",
        "RequestTTY force",
        "StrictHostKeyChecking no",
        "GSSAPIAuthentication yes",
        "Compression yes",
        "SetEnv A=b",
        "ProxyJump hop",
        "IdentitiesOnly yes",
        "HostKeyAlias gpu",
        "RevokedHostKeys none",
        "ControlMaster no",
    ],
)
def test_what_changes_no_transport(line: str) -> None:
    found = judged(line)
    assert not ssh_options.beyond(found) and not ssh_options.refused(found)


def test_the_command_never_asks_and_runs_one_program() -> None:
    settings = SshSettings(
        address="gpu",
        user="root",
        port=22,
        identity_file="/k",
        known_hosts="/a b",
        config_file="/c",
    )
    words = command(settings, defaults(), ["python3", "-c", "print('x y')"])
    assert words[-3:] == ["--", "gpu", "python3 -c 'print('\"'\"'x y'\"'\"')'"]
    for option in (
        "batchmode=yes",
        "remotecommand=none",
        "clearallforwardings=yes",
        "stricthostkeychecking=yes",
        'userknownhostsfile="/a b"',
    ):
        assert option in words
    old = command(SshSettings(address="gpu", accept_new=True), {}, ["true"])
    assert not any(word.startswith(("sessiontype", "stdinnull")) for word in old)
    assert "stricthostkeychecking=accept-new" in old


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("root@gpu: Permission denied (publickey).", AccessRefused),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @", ChangedHostKey),
        ("Host key ED25519 SHA256:x revoked by file /r", ChangedHostKey),
        ("No ED25519 host key is known for gpu and you have requested strict checking.\n"
         "Host key verification failed.", UnknownHostKey),
        ("Unable to negotiate with 10.0.0.1 port 22: no matching key exchange method found.",
         Unreachable),
        ("kex_exchange_identification: read: Connection reset by peer", Unreachable),
        ("kex_exchange_identification: Connection closed by remote host", Unreachable),
        ("ssh: Could not resolve hostname gpu: Name or service not known", Unreachable),
        ("ssh: connect to host gpu port 22: Connection refused", Unreachable),
        ("/c: line 1: Bad configuration option: hots", HostError),
        ("ssh: something new", Unreachable),
    ],
)  # fmt: skip
def test_what_ssh_says_becomes_an_error(said: str, error: type[HostError]) -> None:
    found = failure("gpu", "gpu.example", said)
    assert type(found) is error and found.why == said and found.next
    assert "accept_new" not in found.next


def test_what_a_program_there_says_is_not_ssh_s() -> None:
    assert failure("gpu", "gpu", "python3: can't open file") is None


@given(st.text(max_size=200))
def test_any_words_and_any_options(text: str) -> None:
    failure("gpu", "gpu", text)
    for one in ssh_options.judge(parse(text), {}):
        assert one.verdict in ("honoured", "harmless", "refused", "unknown")


def test_the_cheapest_cipher_is_asked_for_first_where_it_is_allowed() -> None:
    settings = SshSettings(address="gpu")
    cheap = "aes128-gcm@openssh.com"
    allowed = command(settings, {"ciphers": [f"chacha20-poly1305@openssh.com,{cheap}"]}, ["true"])
    assert f"ciphers={cheap},chacha20-poly1305@openssh.com" in allowed
    for ciphers in (["aes256-gcm@openssh.com"], []):
        other = command(settings, {"ciphers": ciphers}, ["true"])
        assert not [word for word in other if word.startswith("ciphers=")]
