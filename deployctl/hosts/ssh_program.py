"""A machine reached by the `ssh` program: for what OpenSSH can and paramiko cannot.

One channel is all that is needed. It never prompts: no terminal, no askpass, BatchMode.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deployctl.config.host import SshSettings
from deployctl.errors import (
    AccessRefused,
    ChangedHostKey,
    HostError,
    UnknownHostKey,
    Unreachable,
)
from deployctl.hosts.interface import Ending
from deployctl.hosts.local import LocalChannel

FAILED = 255
"""ssh's status where it could not connect, or lost the connection."""
OURS = {
    "batchmode": "yes",
    "clearallforwardings": "yes",
    "forwardagent": "no",
    "forwardx11": "no",
    "tunnel": "no",
    "permitlocalcommand": "no",
    "remotecommand": "none",
    "requesttty": "no",
    "escapechar": "none",
    "forkafterauthentication": "no",
    "stdinnull": "no",
    "sessiontype": "default",
    "updatehostkeys": "no",
}
"""Options that a program's channel needs so; given where this OpenSSH knows them."""
ALWAYS = ("remotecommand", "batchmode")


def command(settings: SshSettings, known: Mapping[str, object], argv: Sequence[str]) -> list[str]:
    """The `ssh` command that runs `argv` there; `known` are the options of `ssh -G`. Pure."""
    words = ["ssh", "-T"]
    if settings.config_file:
        words += ["-F", str(Path(settings.config_file).expanduser())]
    if settings.user:
        words += ["-l", settings.user]
    if settings.port:
        words += ["-p", str(settings.port)]
    if settings.identity_file:
        words += ["-i", str(Path(settings.identity_file).expanduser())]
    given = {key: value for key, value in OURS.items() if key in known or key in ALWAYS}
    given["stricthostkeychecking"] = "accept-new" if settings.accept_new else "yes"
    given["connecttimeout"] = str(max(1, math.ceil(settings.connect_timeout)))
    if settings.known_hosts:
        given["userknownhostsfile"] = f'"{Path(settings.known_hosts).expanduser()}"'
        given["globalknownhostsfile"] = "none"
    for key, value in given.items():
        words += ["-o", f"{key}={value}"]
    return [*words, "--", settings.address, shlex.join(argv)]


class SshProgram:
    """Starts programs on a machine by `ssh`; each channel is a process of its own."""

    def __init__(self, name: str, settings: SshSettings, known: Mapping[str, object]) -> None:
        self.name = name
        self._settings = settings
        self._known = known

    def open(self, argv: Sequence[str]) -> LocalChannel:
        # Without a terminal of its own it cannot ask; a window of askpass must not either.
        env = {**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
        try:
            return LocalChannel(command(self._settings, self._known, argv), env)
        except OSError as error:
            todo = "install the OpenSSH client"
            raise HostError(self.name, "ssh cannot be started here", str(error), todo) from error

    def explain(self, ending: Ending | None) -> HostError | None:
        """What ssh said, where it failed itself."""
        if ending is None or ending.status != FAILED:
            return None
        return failure(self.name, self._settings.address, ending.stderr.strip())

    def close(self) -> None:
        """Nothing is kept open between channels."""


Failure = tuple[str, Callable[..., HostError], str, str]
FAILURES: tuple[Failure, ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        ChangedHostKey,
        "the host key of {0} is changed",
        "someone may be in between; compare its fingerprint with the host's own",
    ),
    (
        r"revoked by|is marked as revoked|REVOKED HOST KEY|in revoked keys file",
        ChangedHostKey,
        "the host key of {0} is revoked",
        "do not connect to it; give the host a new key",
    ),
    (
        r"Host key verification failed|No .* host key is known",
        UnknownHostKey,
        "the host key of {0} is not trusted",
        "compare its fingerprint with the host's own, and put its key or its CA's line into "
        "known_hosts",
    ),
    (
        r"no matching|Unable to negotiate",
        Unreachable,
        "{0} and your ssh_config have no algorithm in common",
        "see Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms in your ssh_config",
    ),
    (
        r"Permission denied|Too many authentication failures|no more authentication methods",
        AccessRefused,
        "{0} does not let us in",
        "see what it says about keys, certificates and the key agent: ssh -v {0}",
    ),
    (
        r"Could not resolve hostname",
        Unreachable,
        "the name of {0} cannot be resolved",
        "correct ssh: address in the host file, or HostName in your ssh_config",
    ),
    (
        r"exchange_identification|Connection closed by|Connection reset by|banner exchange",
        Unreachable,
        "{0} was reached and closed the connection before it let anybody in",
        "see its sshd's log: MaxStartups, a firewall, or a ProxyCommand that ended",
    ),
    (
        r"Connection refused|timed out|No route to host|unreachable|bind",
        Unreachable,
        "no connection to {0}",
        "see whether the host is up and sshd listens on that port",
    ),
    (
        r"Bad configuration option|Bad owner|terminating, \d+ bad",
        HostError,
        "OpenSSH does not accept your ssh_config",
        "run it by hand: ssh -G {0}",
    ),
)
"""What ssh says, the error that it is, what failed and what to do."""


def failure(name: str, address: str, said: str) -> HostError | None:
    """The error that ssh's own words mean; None where they are not known. Pure."""
    for pattern, error, what, todo in FAILURES:
        if re.search(pattern, said):
            return error(name, what.format(address), said, todo.format(address))
    if re.search(r"^(ssh|kex|mux|proxy|debug1)\b.*:", said, re.MULTILINE):
        return Unreachable(name, f"ssh to {address} failed", said, f"try it: ssh -v {address}")
    return None
