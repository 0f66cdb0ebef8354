"""Keys of hosts and of users: what is known, offered, accepted and refused."""

from __future__ import annotations

import base64
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.errors import AccessRefused, ChangedHostKey, UnknownHostKey
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.reach import fingerprint, lock_key, reach, refusal
from tests.hosts.lab.sshd import Sshd, make_key, public


def key_on_a_token() -> str:
    """What `ssh-keygen -t ed25519-sk` writes: the secret itself stays on the FIDO token."""

    def text(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    kind = text(b"sk-ssh-ed25519@openssh.com") + text(bytes(32)) + text(b"ssh:")
    secret = bytes(8) + kind + b"\x01" + text(b"handle") + text(b"") + text(b"me")
    secret += bytes(range(1, 8))[: -len(secret) % 8]
    head = b"openssh-key-v1\0" + text(b"none") + text(b"none") + text(b"")
    whole = head + (1).to_bytes(4, "big") + text(kind) + text(secret)
    name = "OPENSSH PRIVATE KEY-----"
    return f"-----BEGIN {name}\n{base64.encodebytes(whole).decode()}-----END {name}\n"


class TestHostKeys:
    def test_unknown(self, sshd: Sshd) -> None:
        sshd.known_hosts.write_text("")
        error = refusal(sshd.settings())
        assert isinstance(error, UnknownHostKey)
        assert fingerprint(sshd.host_key) in error.why
        assert str(sshd.known_hosts) in error.why
        assert "accept_new" in error.next
        assert f"UserKnownHostsFile={sshd.known_hosts}" in error.next
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

    def test_a_key_on_a_token_does_not_hide_the_next_one(self, sshd: Sshd, tmp_path: Path) -> None:
        token = tmp_path / "id_ed25519_sk"
        token.write_text(key_on_a_token())
        sshd.config_file().write_text(f"IdentityAgent none\nIdentityFile {sshd.user_key}\n")
        assert reach(sshd.settings(identity_file=str(token))) == (b"", 0)
        sshd.config_file().write_text("IdentityAgent none\nIdentitiesOnly yes\n")
        error = refusal(sshd.settings(identity_file=str(token)))
        assert isinstance(error, AccessRefused)
        assert f"{token}: a kind of key that cannot be read here" in error.why

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


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """A real ssh-agent without keys."""
    path = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    wait_for("the key agent", answers)
    yield str(path)
    process.terminate()
    process.wait()
