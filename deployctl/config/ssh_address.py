"""A machine as people name it to `ssh`: `[USER@]HOST[:PORT]`, also after `ssh://`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SCHEME = "ssh://"
FORMS = "USER@HOST, USER@HOST:PORT or ssh://USER@HOST:PORT; an IPv6 address with a port in brackets"
"""For people, in an error or a help text."""


@dataclass(frozen=True)
class SshAddress:
    """The parts of such a name; what is absent comes from ssh_config."""

    host: str
    user: str | None = None
    port: int | None = None


def split(name: str) -> SshAddress:
    """The parts of a name; raises `ValueError` with a sentence for any other text. Source: ssh(1),
    `destination`; a port without `ssh://` is accepted as well."""
    user, _, place = name.removeprefix(SCHEME).rstrip("/").rpartition("@")
    host, port = place, ""
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"{name}: write {FORMS}")
        port = rest.removeprefix(":")
    elif place.count(":") == 1:
        host, _, port = place.partition(":")
    if not host or "/" in host:
        raise ValueError(f"{name}: write {FORMS}")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
        raise ValueError(f"{name}: the port should be a number from 1 to 65535, not {port}")
    return SshAddress(host, user or None, int(port) if port else None)
