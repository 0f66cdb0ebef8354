"""A machine reached by the `ssh` program: for what OpenSSH can and paramiko cannot.

One channel is all that is needed. It never prompts: no terminal, no askpass, BatchMode.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from deployctl.config.host import SshSettings
from deployctl.errors import (
    AccessRefused,
    ChangedHostKey,
    HostError,
    UnknownHostKey,
    Unreachable,
)
from deployctl.hosts.interface import Ending
from deployctl.hosts.ways.local import LocalChannel

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
FIRST = "aes128-gcm@openssh.com"
"""The cipher that costs least where processors have AES, which those of GPU hosts have."""


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
    allowed = ",".join(map(str, cast(Iterable[object], known.get("ciphers") or ()))).split(",")
    if FIRST in allowed:
        # Of those that the user's ssh_config allows, in its order, the one that costs least first.
        given["ciphers"] = ",".join(sorted(allowed, key=lambda one: one != FIRST))
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
        """What ssh printed, where it failed itself."""
        if ending is None or ending.status != FAILED:
            return None
        return failure(self.name, self._settings.address, ending.stderr.strip())

    def close(self) -> None:
        """Nothing is kept open between channels."""


Failure = tuple[str, Callable[..., HostError], str, str]
_DENIED = r"^(?:(?:\S*@)?(?P<who>[^@\s]+): )?Permission denied(?: \(|, please)"
FAILURES: tuple[Failure, ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED(?:(?s:.*?)Host key for (?P<who>\S+) has changed)?",
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
        r"No \S+ host key is known for (?P<who>\S+) and|Host key verification failed",
        UnknownHostKey,
        "the host key of {0} is not trusted",
        "compare its fingerprint with the host's own, and put its key or its CA's line into "
        "known_hosts",
    ),
    (
        r"Unable to negotiate(?: with (?!UNKNOWN)(?P<who>\S+ port \d+))?|no matching",
        Unreachable,
        "{0} and your ssh_config have no algorithm in common",
        "see Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms in your ssh_config",
    ),
    (
        r"(?:agent refused operation|communication with agent failed)(?s:.*?)" + _DENIED,
        AccessRefused,
        "the key agent did not sign for {0}",
        "unlock the key agent, or touch or plug in its token; ssh-add -l lists its keys",
    ),
    (
        r"(?:bad permissions|are too open)(?s:.*?)" + _DENIED,
        AccessRefused,
        "{0} does not let us in, and a key file was not used since others may read it",
        "chmod 600 the key file that it names",
    ),
    (
        r"Too many authentication failures",
        AccessRefused,
        "{0} hung up after too many keys",
        "set IdentitiesOnly yes and the right IdentityFile for {0} in your ssh_config",
    ),
    (
        _DENIED + r"|no more authentication methods",
        AccessRefused,
        "{0} does not let us in",
        "see what it says about keys, certificates and the key agent: ssh -v {0}",
    ),
    (
        r"Could not resolve hostname (?P<who>\S+?):?\s",
        Unreachable,
        "the name {0} cannot be resolved",
        "correct ssh: address in the host file, or HostName in your ssh_config",
    ),
    (
        r"stdio forwarding failed|^channel \d+: open failed",
        Unreachable,
        "the jump host does not reach {0}",
        "see there whether the host's name and port are right and it is up, and "
        "AllowTcpForwarding in the jump host's sshd_config",
    ),
    (
        r"connect to (?:host|address) (?P<who>\S+ port \d+): ",
        Unreachable,
        "no connection to {0}",
        "see whether the host is up and sshd listens on that port",
    ),
    (
        r"UNKNOWN port 65535",
        Unreachable,
        "no connection to {0} through its ProxyCommand or jump host",
        "run the ProxyCommand by hand, or try the jump host: ssh -v {0}",
    ),
    (
        r"timed out during banner exchange",
        Unreachable,
        "{0} was reached and does not answer as an SSH server",
        "see whether it hangs, or whether something else listens on that port",
    ),
    (
        r"exchange_identification|Connection (?:closed|reset) by|banner exchange"
        r"|Connection to \S+ (?:port \d+ )?closed by",
        Unreachable,
        "{0} was reached and closed the connection before authentication",
        "see its sshd's log: MaxStartups, a firewall, or a ProxyCommand that ended",
    ),
    (
        r"exec request failed on channel|Session open refused by peer",
        Unreachable,
        "{0} is connected and does not start a program",
        "see MaxSessions, ForceCommand and the account's shell there, and its sshd's log",
    ),
    (
        r"too long for Unix domain socket|ControlPath .*too long",
        HostError,
        "the ControlPath of your ssh_config is too long for {0}",
        "set ControlPath ~/.ssh/%C in your ssh_config",
    ),
    (
        r"Connection refused|timed out|not responding|No route to host|unreachable|\bbind\b",
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
"""What ssh says, the error that it is, what failed and what to do. `who` is whom ssh itself
names, which may be a jump host."""
_OWN = r"^(?:ssh|kex|mux|proxy|debug1|client_loop)(?:_\w+)?\b.*:"
"""A line of ssh's own that says nothing known."""


def failure(name: str, address: str, said: str) -> HostError | None:
    """The error that ssh's own words mean; None where they are not known. Pure."""
    for pattern, error, what, todo in FAILURES:
        found = re.search(pattern, said, re.MULTILINE)
        if found:
            who = found.groupdict().get("who") or address
            return error(name, what.format(who), said, todo.format(address))
    if re.search(_OWN, said, re.MULTILINE):
        return Unreachable(name, f"ssh to {address} failed", said, f"try it: ssh -v {address}")
    return None
