"""The user's own keys: which are offered to a server, in which order, and what came of it."""

from __future__ import annotations

import base64
import binascii
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from paramiko import (
    AuthenticationException,
    BadAuthenticationType,
    PKey,
    SSHException,
    Transport,
)
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from deployctl.errors import AccessRefused, Unreachable
from deployctl.hosts.known_hosts import fingerprint
from deployctl.hosts.ssh_config import Endpoint

AGENT_LIMIT = 5.0
"""Seconds for an answer of the user's key agent."""


UNKNOWN_KINDS = (UnsupportedAlgorithm, UnknownKeyType)
"""A key of a kind that paramiko cannot read: on a FIDO token, DSA."""


SHORT = {
    "Authentication failed.": "refused",
    "key cannot be used for signing": "the key agent does not sign with it: unlock it, or touch "
    "its token",
}
"""paramiko's words, in ours."""


class KeyAgent(AgentSSH):
    """The user's ssh-agent at a given socket: paramiko's own looks at $SSH_AUTH_SOCK alone,
    IdentityAgent may name another."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(AGENT_LIMIT)
        try:
            self._socket.connect(path)
            self._connect(self._socket)  # type: ignore[attr-defined]
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()


class UserKeys:
    """Offers the endpoint's identity files and the agent's keys; nothing that would prompt.

    Has the shape of paramiko's AuthStrategy, whose own `authenticate` goes on offering keys to a
    server that has hung up. Raises `AccessRefused` with every key that was or could not be
    offered.
    """

    def __init__(self, name: str, endpoint: Endpoint, limit: float) -> None:
        self._name = name
        self._endpoint = endpoint
        self._limit = limit
        self._notes: list[str] = []

    def authenticate(self, transport: Transport) -> list[str]:
        try:
            agent = KeyAgent(self._endpoint.agent) if self._endpoint.agent else None
        except (OSError, SSHException) as error:
            self._notes.append(f"the key agent at {self._endpoint.agent}: {error}")
            agent = None
        try:
            for label, key in self._offers(list(agent.get_keys()) if agent else []):
                if self._offer(transport, label, key):
                    return []
                if not transport.is_active():
                    self._notes.append("then it hung up: it does not take more keys than that")
                    break
        finally:
            if agent is not None:
                agent.close()
        absent = any(note.startswith("the key agent at") for note in self._notes)
        raise AccessRefused(
            self._name,
            f"{self._endpoint.hostname} does not let {self._endpoint.user} in",
            "; ".join(self._notes) or "there is no key to offer",
            ("start the key agent, or " if absent else "")
            + f"add a key to {self._endpoint.user}'s authorized_keys there, or name the right one "
            "in the host file: identity_file: ~/.ssh/…",
        )

    def _offer(self, transport: Transport, label: str, key: PKey) -> bool:
        began = time.monotonic()
        try:
            missing = transport.auth_publickey(self._endpoint.user, key)
        except BadAuthenticationType as error:
            self._notes.append(
                f"{label}: it lets in by {' or '.join(error.allowed_types)}, not by key"
            )
            return False
        except (AuthenticationException, SSHException, EOFError, OSError) as error:
            if time.monotonic() - began >= self._limit:
                raise Unreachable(
                    self._name,
                    f"{self._endpoint.place} did not answer a key within {self._limit:g} s",
                    str(error),
                    "look whether the host hangs, or raise connect_timeout in the host file",
                ) from error
            self._notes.append(f"{label}: {_short(error)}")
            return False
        if missing:
            self._notes.append(f"{label}: accepted, but it asks for {' and '.join(missing)} too")
        return not missing

    def _offers(self, agent_keys: list[PKey]) -> Iterator[tuple[str, PKey]]:
        """Identity files first, by the agent where they need a passphrase; then the agent's own."""
        by_data = {key.asbytes(): key for key in agent_keys}
        for path in self._endpoint.identity_files:
            if not Path(path).exists() and not Path(path + ".pub").exists():
                if "/.ssh/id_" not in path:  # OpenSSH's defaults need not exist
                    self._notes.append(f"{path}: no such file")
                continue
            held = by_data.pop(_public(path), None)
            if held is not None:
                yield f"{path} by the agent {fingerprint(held.asbytes())}", held
                continue
            try:
                key = PKey.from_path(path)
            except (SSHException, ValueError, TypeError, OSError, *UNKNOWN_KINDS) as error:
                self._notes.append(f"{path}: {_unreadable(error)}")
                continue
            by_data.pop(key.asbytes(), None)
            yield f"{path} {fingerprint(key.asbytes())}", key
        if not self._endpoint.identities_only:
            for data, key in by_data.items():
                yield f"the agent's {key.get_name()} {fingerprint(data)}", key


def _public(path: str) -> bytes:
    """The public half beside an identity file, or in it; empty where there is none."""
    for file in (Path(path + ".pub"), Path(path)):
        try:
            fields = file.read_text(errors="replace").split()
            if fields[0].startswith(("ssh-", "ecdsa-", "sk-")):
                return base64.b64decode(fields[1], validate=True)
        except (OSError, IndexError, binascii.Error):
            continue
    return b""


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return SHORT.get(text, text)


def _unreadable(error: Exception) -> str:
    if isinstance(error, TypeError) or "assword" in str(error):
        return "needs a passphrase: hand it to a key agent with ssh-add"
    if isinstance(error, UNKNOWN_KINDS):
        return "a kind of key that cannot be read here: hand it to a key agent with ssh-add"
    return str(error) or type(error).__name__
