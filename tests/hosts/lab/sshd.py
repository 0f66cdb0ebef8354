"""A private OpenSSH server for tests: its own keys, port and files, nothing of the machine's."""

from __future__ import annotations

import getpass
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.ports import free_port

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
START_LIMIT = 120.0


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new private key at `path`, its public half beside it."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", path], check=True
    )
    return path


def public(key: Path) -> str:
    """Type and data of a key's public half, as known_hosts has them."""
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def sshd_config(
    listen: str, host_key: Path, user_key: Path, options: Mapping[str, str] | None = None
) -> str:
    """A whole sshd_config that lets one key in and reads nothing of the machine's."""
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    lines = {
        "ListenAddress": listen,
        "HostKey": str(host_key),
        "AuthorizedKeysFile": f"{user_key}.pub",
        # Directories below a world-writable one are refused otherwise.
        "StrictModes": "no",
        "PidFile": "none",
        "UseDNS": "no",
        "UsePAM": "no",
        "MaxStartups": "100",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
        **(options or {}),
    }
    return "".join(f"{key} {value}\n" for key, value in lines.items())


class Sshd:
    """sshd on a loopback port, running from `start` to `stop`.

    `directory` gets the host key `host`, the user's key `user`, `known_hosts` and the log.
    `options` are further lines of sshd_config.
    """

    def __init__(self, directory: Path, options: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self.options = dict(options or {})
        self.host_key = make_key(directory / "host")
        self.user_key = make_key(directory / "user")
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public(self.host_key)}\n")
        self.log = directory / "sshd.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The listener's process."""
        assert self._process is not None
        return self._process.pid

    def settings(self, **changes: Any) -> dict[str, Any]:
        """The `ssh:` section of a host file that reaches this server."""
        return {
            "address": "127.0.0.1",
            "port": self.port,
            "user": getpass.getuser(),
            "identity_file": str(self.user_key),
            "known_hosts": str(self.known_hosts),
            # None of the ssh_config, keys and agent of whoever runs the tests.
            "config_file": str(self.config_file()),
            # However busy this machine is.
            "connect_timeout": 60,
            **changes,
        }

    def host_settings(self, name: str = "loopback", **changes: Any) -> dict[str, Any]:
        """A whole host file, as `HostSettings` takes it; `changes` go into its `ssh:`."""
        return {"name": name, "ssh": self.settings(**changes)}

    def config_file(self) -> Path:
        """An ssh_config that offers nothing but what a host file names."""
        path = self.directory / "ssh_config"
        if not path.exists():
            path.write_text(
                "Host *\n  IdentitiesOnly yes\n  IdentityAgent none\n"
                f"  IdentityFile {self.user_key}\n"
                f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile none\n"
            )
        return path

    def start(self) -> None:
        """Start it and wait until it speaks SSH."""
        config = self.directory / "sshd_config"
        listen = f"127.0.0.1:{self.port}"
        config.write_text(sshd_config(listen, self.host_key, self.user_key, self.options))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", config],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_LIMIT
        while not self._speaks():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"sshd did not start: {self.log.read_text()}")
            time.sleep(0.01)
        # Else a test would take what served the question for a session of its own.
        wait_for("the end of the first session", lambda: not self.sessions())

    def _speaks(self) -> bool:
        """Whether it says its name: a port that is open may still reset its first caller."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as probe:
                return probe.recv(4) == b"SSH-"
        except OSError:
            return False

    def sessions(self) -> list[int]:
        """The processes that serve connections: children of the listener, and theirs."""
        return [pid for pid in processes.descendants(self.pid) if processes.name_of(pid) == "sshd"]

    def stop(self) -> None:
        """End the listener and every connection."""
        if self._process is None:
            return
        try:
            # A listener that stands still starts no session beside those that are ended.
            processes.send(self.pid, signal.SIGSTOP)
            for pid in self.sessions():
                processes.send(pid, signal.SIGKILL)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None
