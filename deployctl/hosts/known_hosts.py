"""Host keys: what known_hosts says about a server's key, and storing a new one when configured.

The files are searched by OpenSSH's own `ssh-keygen -F`, so hashed names, wildcards, negations and
the markers of sshd(8), SSH_KNOWN_HOSTS FILE FORMAT, mean what they mean to `ssh`.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paramiko import HostKeys, PKey

from deployctl.errors import ChangedHostKey, UnknownHostKey
from deployctl.hosts.ssh_config import Endpoint

SSH_PORT = 22


@dataclass(frozen=True)
class KnownKey:
    """One line of a known_hosts file that speaks of a server."""

    file: str
    line: int
    revoked: bool
    type: str
    data: bytes


def fingerprint(data: bytes) -> str:
    """A key's fingerprint as OpenSSH prints it."""
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")
    return "SHA256:" + digest.rstrip("=")


def name_of(endpoint: Endpoint) -> str:
    """How known_hosts names this server: the port is part of it where it is not 22."""
    if endpoint.port == SSH_PORT:
        return endpoint.known_as
    return f"[{endpoint.known_as}]:{endpoint.port}"


def known_keys(endpoint: Endpoint) -> list[KnownKey]:
    """Everything the known_hosts files say about a server. As in OpenSSH, an entry without a
    port speaks for every port as long as there is none with it."""
    found = list(_search(endpoint, name_of(endpoint)))
    if endpoint.port != SSH_PORT and not any(not key.revoked for key in found):
        found += _search(endpoint, endpoint.known_as)
    return found


def authorities(endpoint: Endpoint) -> list[str]:
    """Where the known_hosts files name a certificate authority for a server, as file:line."""
    names = {name_of(endpoint), endpoint.known_as}
    return [place for name in sorted(names) for place in _authorities(endpoint, name)]


def _authorities(endpoint: Endpoint, name: str) -> Iterator[str]:
    for file, text in _found(endpoint, name):
        number = 0
        for line in text.splitlines():
            if line.startswith("#"):
                words = line.split()
                number = int(words[words.index("line") + 1])
            elif line.startswith("@cert-authority"):
                yield f"{file}:{number}"


def _search(endpoint: Endpoint, name: str) -> Iterator[KnownKey]:
    for file, text in _found(endpoint, name):
        yield from read_found(file, text)


def _found(endpoint: Endpoint, name: str) -> Iterator[tuple[str, str]]:
    for file in endpoint.known_hosts:
        if Path(file).is_file():
            done = subprocess.run(
                ["ssh-keygen", "-F", name, "-f", file],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
            )
            yield file, done.stdout


def read_found(file: str, text: str) -> Iterator[KnownKey]:
    """The output of `ssh-keygen -F`: a comment with the line's number before each entry."""
    number = 0
    for line in text.splitlines():
        if line.startswith("#"):
            words = line.split()
            number = int(words[words.index("line") + 1])
            continue
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < 3 or marker == "@cert-authority":
            continue  # paramiko does not speak host certificates
        try:
            data = base64.b64decode(fields[2], validate=True)
        except binascii.Error:
            continue
        yield KnownKey(file, number, marker == "@revoked", fields[1], data)


Verdict = Literal["known", "new", "other-type", "changed", "revoked"]


def judge(known: list[KnownKey], key_type: str, data: bytes) -> tuple[Verdict, KnownKey | None]:
    """What the known keys of a server say about the one it shows, and the line that says it."""
    for entry in known:
        if entry.revoked and entry.data == data:
            return "revoked", entry
    valid = [entry for entry in known if not entry.revoked]
    for entry in valid:
        if entry.data == data:
            return "known", entry
    for entry in valid:
        if entry.type == key_type:
            return "changed", entry
    return ("other-type", valid[0]) if valid else ("new", None)


def check(name: str, endpoint: Endpoint, key: PKey, accept_new: bool) -> None:
    """Raise unless the server's key is known; with `accept_new` a server never seen before is
    stored. `name` is the host's name in the profile."""
    data, key_type = key.asbytes(), key.get_name()
    verdict, entry = judge(known_keys(endpoint), key_type, data)
    if verdict == "known":
        return
    shown = f"it shows {key_type} {fingerprint(data)}"
    place = name_of(endpoint)
    if entry is not None and verdict in ("changed", "revoked"):
        where = f"{entry.file} line {entry.line}"
        raise ChangedHostKey(
            name,
            f"the host key of {place} is {verdict}",
            f"{shown}, {where} has {entry.type} {fingerprint(entry.data)}"
            if verdict == "changed"
            else f"{shown}, which {where} marks as revoked",
            "someone may be in between; if the host was reinstalled: "
            f"ssh-keygen -R '{place}' -f {entry.file}",
        )
    if verdict == "new" and accept_new and endpoint.known_hosts:
        store(endpoint, key)
        return
    files = " ".join(endpoint.known_hosts) or "no file at all"
    raise UnknownHostKey(
        name,
        f"the host key of {place} is not known",
        f"{shown}; "
        + (
            f"{entry.file} line {entry.line} knows only {entry.type} of it"
            if entry is not None
            else f"looked in {files}"
        ),
        "compare the fingerprint with the host's own (ssh-keygen -lf on its key file), then "
        f"connect once with {by_hand(endpoint)}, "
        "or set accept_new: true in the host file",
    )


def by_hand(endpoint: Endpoint) -> str:
    """The ssh command that asks about a server's key, and stores it where it is looked for."""
    words = ["ssh", "-p", str(endpoint.port)]
    if endpoint.known_hosts:
        words += ["-o", f"UserKnownHostsFile={endpoint.known_hosts[0]}"]
    if endpoint.known_as not in ("", endpoint.hostname):
        words += ["-o", f"HostKeyAlias={endpoint.known_as}"]
    if endpoint.jumps:
        words += ["-J", ",".join(endpoint.jumps)]
    return shlex.join([*words, f"{endpoint.user}@{endpoint.hostname}"])


def store(endpoint: Endpoint, key: PKey) -> None:
    """Append a server's key to the first known_hosts file, made with mode 0600 where missing.

    Appended in one write under a lock: two connections do not mix their lines, and what stands
    there is never rewritten.
    """
    file = Path(endpoint.known_hosts[0])
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if judge(known_keys(endpoint), key.get_name(), key.asbytes())[0] == "known":
            return
        name = name_of(endpoint)
        if endpoint.hash_known_hosts:
            name = HostKeys.hash_host(name)
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = "\n" + line
        os.write(descriptor, line.encode("ascii"))
    finally:
        os.close(descriptor)


def preferred_types(known: list[KnownKey], offered: tuple[str, ...]) -> tuple[str, ...]:
    """The key types to ask a server for, those that are known of it first: paramiko's own order
    would have it show a key of which nothing is known."""
    types = {entry.type for entry in known if not entry.revoked}
    if "ssh-rsa" in types:
        types |= {"rsa-sha2-512", "rsa-sha2-256"}
    return tuple(sorted(offered, key=lambda kind: kind not in types))
