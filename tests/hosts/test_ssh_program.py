"""What OpenSSH can and paramiko cannot, over a real sshd: the ssh program is the transport."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings
from deployctl.errors import AccessRefused, ChangedHostKey, HostError, UnknownHostKey
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.lab.reach import add, reach
from tests.hosts.lab.sshd import Sshd, make_key, public

FDPASS = """\
import array, socket, sys
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
fds = array.array("i", [there.fileno()])
socket.socket(fileno=1).sendmsg([b"\\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
"""


def refused(server: Sshd, tmp_path: Path) -> HostError:
    """Why no agent could be started there."""
    host = HostSettings.model_validate(server.host_settings())
    with pytest.raises(HostError) as caught:
        Session(transport(host), root=str(tmp_path / "root"))
    assert caught.value.why and caught.value.next
    return caught.value


def sign(authority: Path, key: Path, *more: str) -> Path:
    argv = ["ssh-keygen", "-q", "-s", str(authority), "-I", "id", "-V", "+2d", *more, f"{key}.pub"]
    subprocess.run(argv, check=True)
    return key.with_name(f"{key.name}-cert.pub")


@pytest.fixture
def by_certificate(tmp_path: Path) -> Iterator[Sshd]:
    """A server that lets in by a certificate of its user CA alone."""
    authority = make_key(tmp_path / "ca")
    options = {"TrustedUserCAKeys": f"{authority}.pub"}
    folder = tmp_path / "server"
    folder.mkdir()
    server = Sshd(folder, options)
    certificate = sign(authority, server.user_key, "-n", server.settings()["user"])
    shutil.move(certificate, tmp_path / "signed-cert.pub")
    (folder / "user.pub").rename(tmp_path / "away.pub")
    server.start()
    yield server
    server.stop()


def test_a_certificate_that_lies_elsewhere(by_certificate: Sshd, tmp_path: Path) -> None:
    assert isinstance(refused(by_certificate, tmp_path), AccessRefused)
    add(by_certificate, f"CertificateFile {tmp_path}/signed-cert.pub")
    assert reach(by_certificate.settings(), "echo", "a  b") == (b"a  b\n", 0)


def test_an_agent_over_the_program(sshd: Sshd, tmp_path: Path) -> None:
    add(sshd, "AddressFamily inet")
    host = HostSettings.model_validate(sshd.host_settings())
    with Session(transport(host), root=str(tmp_path)) as session:
        assert session.call("files.disk", path="@")["free"] > 0


def test_a_descriptor_that_is_passed(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "pass.py").write_text(FDPASS)
    add(sshd, f"ProxyCommand {sys.executable} {tmp_path}/pass.py %h %p")
    add(sshd, "ProxyUseFdpass yes")
    assert reach(sshd.settings(), "echo", "x") == (b"x\n", 0)


def test_a_host_certificate(sshd: Sshd, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "hostca")
    certificate = sign(authority, sshd.host_key, "-h", "-n", "127.0.0.1")
    sshd.stop()
    sshd.options["HostCertificate"] = str(certificate)
    sshd.start()
    line = f"@cert-authority [127.0.0.1]:{sshd.port} {public(authority)}\n"
    sshd.known_hosts.write_text(line)
    assert reach(sshd.settings(), "true") == (b"", 0)
    other = make_key(tmp_path / "otherca")
    sshd.known_hosts.write_text(line.replace(public(authority), public(other)))
    error = refused(sshd, tmp_path)
    assert isinstance(error, UnknownHostKey) and "accept_new" not in error.next


def test_a_revoked_host_key(sshd: Sshd, tmp_path: Path) -> None:
    revoked = tmp_path / "revoked"
    revoked.write_text("")
    add(sshd, f"RevokedHostKeys {revoked}")
    assert reach(sshd.settings(), "true") == (b"", 0)
    revoked.write_text(public(sshd.host_key) + "\n")
    assert isinstance(refused(sshd, tmp_path), ChangedHostKey)


def test_a_key_exchange_that_does_not_meet(sshd: Sshd, tmp_path: Path) -> None:
    sshd.stop()
    sshd.options["KexAlgorithms"] = "curve25519-sha256"
    sshd.start()
    add(sshd, "KexAlgorithms ecdh-sha2-nistp256")
    assert "no algorithm in common" in refused(sshd, tmp_path).what


def test_an_option_that_lets_nobody_in(sshd: Sshd, tmp_path: Path) -> None:
    add(sshd, "PubkeyAuthentication no")
    error = refused(sshd, tmp_path)
    assert "PubkeyAuthentication no" in error.why and "host explain" in error.next
