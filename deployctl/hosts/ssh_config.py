"""Where an SSH address leads, as OpenSSH itself resolves it: `ssh -G`, parsed.

Include, Match, canonical names and defaults are thereby OpenSSH's own; see ssh_config(5).
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from deployctl.config.host import SshSettings
from deployctl.config.ssh_address import split
from deployctl.errors import HostError

RESOLVE_LIMIT = 20.0
"""Seconds for `ssh -G`; a `Match exec` may run a program."""


@dataclass(frozen=True)
class Endpoint:
    """One SSH server and how to be let in, all names and paths resolved.

    `known_as` is the name in known_hosts; `known_hosts` are the files, the first being the one
    that new keys are stored in; `agent` is the socket of the user's key agent; `jumps` are the
    hosts to go through, nearest first.
    """

    alias: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str | None = None
    known_as: str = ""
    known_hosts: tuple[str, ...] = ()
    hash_known_hosts: bool = False
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    options: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)
    """Everything that `ssh -G` printed."""

    @property
    def place(self) -> str:
        """Host and port, for people."""
        return f"{self.hostname} port {self.port}"


def resolve(name: str, settings: SshSettings) -> Endpoint:
    """Ask OpenSSH where `settings` lead. `name` is the host's name in the profile, for errors."""
    return endpoint(settings, asked(name, settings), os.environ)


def asked(name: str, settings: SshSettings) -> str:
    """What `ssh -G` prints for `settings`."""
    argv = ["ssh", "-G"]
    for option, value in (
        ("-F", settings.config_file and str(Path(settings.config_file).expanduser())),
        ("-p", settings.port and str(settings.port)),
        ("-l", settings.user),
    ):
        if value:
            argv += [option, value]
    return _ssh(name, [*argv, "--", settings.address], settings.address)


@cache
def defaults() -> Mapping[str, Sequence[str]]:
    """The options of this OpenSSH without any configuration."""
    return parse(_ssh("ssh", ["ssh", "-G", "-F", "none", "--", "nobody.invalid"], "nobody.invalid"))


def _ssh(name: str, argv: Sequence[str], address: str) -> str:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RESOLVE_LIMIT,
        )
    except FileNotFoundError as error:
        raise HostError(
            name, "ssh is not installed here", str(error), "install the OpenSSH client"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(
            name,
            f"OpenSSH does not resolve the address {address}",
            f"ssh -G did not end within {RESOLVE_LIMIT:g} s",
            "look for a Match exec in your ssh_config that hangs",
        ) from error
    if done.returncode != 0:
        raise HostError(
            name,
            f"OpenSSH does not accept the address {address} or your ssh_config",
            done.stderr.strip(),
            f"run it by hand: ssh -G {address}",
        )
    return done.stdout


def parse(text: str) -> dict[str, list[str]]:
    """The lines of `ssh -G` as key and values; a key may come several times."""
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key.lower(), []).append(value)
    return options


def expanded(value: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """A value with its `~`, `${VARIABLE}` and `%` tokens replaced (ssh_config(5), TOKENS), which
    `ssh -G` leaves as they are. A token that is not known stays."""
    if value.startswith("~"):
        value = str(Path(value).expanduser())
    value = re.sub(r"\$\{(\w+)\}", lambda match: environment.get(match[1], match[0]), value)
    return with_tokens(value, tokens)


def with_tokens(value: str, tokens: Mapping[str, str]) -> str:
    """A value with its `%` tokens alone replaced: of a ProxyCommand, `~` and variables are its
    shell's."""
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), value)


def endpoint(settings: SshSettings, text: str, environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that the output of `ssh -G` describes; what `settings` say comes first."""
    options = parse(text)

    def first(key: str, default: str = "") -> str:
        return options.get(key, [default])[0]

    hostname, user, port = first("hostname"), first("user"), first("port", "22")
    known_as = first("hostkeyalias") or hostname
    tokens = {
        "%": "%",
        "h": hostname,
        "n": settings.address.rpartition("@")[2],
        "p": port,
        "r": user,
        "k": known_as,
        "d": str(Path.home()),
        "u": getpass.getuser(),
        "i": str(os.getuid()),
        "l": socket.gethostname(),
        "L": socket.gethostname().partition(".")[0],
    }

    def paths(key: str) -> list[str]:
        words = first(key).split()
        return [expanded(word, tokens, environment) for word in words if word != "none"]

    identities = [
        expanded(value, tokens, environment)
        for value in options.get("identityfile", [])
        if value != "none"
    ]
    if settings.identity_file:
        identities.insert(0, str(Path(settings.identity_file).expanduser()))
    files = paths("userknownhostsfile") + paths("globalknownhostsfile")
    if settings.known_hosts:
        files = [str(Path(settings.known_hosts).expanduser())]
    jump, command = first("proxyjump", "none"), first("proxycommand", "none")
    agent = first("identityagent", "SSH_AUTH_SOCK")
    variable = re.fullmatch(r"\$(\w+)|(SSH_AUTH_SOCK)", agent)
    if variable:
        agent = environment.get(variable[1] or variable[2], "none")
    return Endpoint(
        alias=settings.address,
        hostname=hostname,
        port=int(port),
        user=user,
        identity_files=tuple(dict.fromkeys(identities)),
        identities_only=first("identitiesonly") == "yes",
        agent=None if agent == "none" else expanded(agent, tokens, environment),
        known_as=known_as,
        known_hosts=tuple(dict.fromkeys(files)),
        hash_known_hosts=first("hashknownhosts") == "yes",
        jumps=() if jump == "none" else tuple(part.strip() for part in jump.split(",")),
        proxy_command=None if command == "none" else with_tokens(command, tokens),
        options=options,
    )


def hop(settings: SshSettings, jump: str) -> SshSettings:
    """The settings of a jump host given as `[user@]host[:port]` or `ssh://…`: what the target's
    own settings say about keys and names does not apply to it, as with `ssh -J`; an unknown key is
    stored for that host alone whose file says so."""
    parts = split(jump)
    return SshSettings(
        address=parts.host,
        user=parts.user,
        port=parts.port,
        config_file=settings.config_file,
        connect_timeout=settings.connect_timeout,
    )
