"""A machine reached by SSH: one Fabric connection, through jump hosts where there are any.

Fabric holds the connection and its gateways. What it would decide by itself is taken from it:
the ssh_config (OpenSSH resolves it), unknown host keys (it would accept them), keys to offer
(it may prompt) and proxy commands (paramiko's own spins when the command ends).
"""

from __future__ import annotations

import logging
import shlex
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import paramiko
from fabric import Config, Connection
from paramiko.ssh_exception import IncompatiblePeer, NoValidConnectionsError

from deployctl.config.host import HostSettings, SshSettings
from deployctl.errors import HostError, Unreachable
from deployctl.hosts import known_hosts, ssh_options
from deployctl.hosts.hops import JumpChannel, ProxyProcess
from deployctl.hosts.interface import Channel, Ending
from deployctl.hosts.ssh_channel import CLOSE_LIMIT, SshChannel, within
from deployctl.hosts.ssh_config import Endpoint, defaults, hop, resolve
from deployctl.hosts.ssh_keys import UserKeys
from deployctl.hosts.ways.ssh_program import FIRST, SshProgram

# Without any handler, logging would write paramiko's tracebacks into the user's terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

MOST_HOPS = 8
CLOSED = (EOFError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
"""How the other end of a connection shows that it went."""

WEAK = ("3des", "md5", "arcfour", "blowfish", "-96", "group1-")
"""Parts of the names of algorithms that paramiko offers and OpenSSH no longer does."""


def way(host: HostSettings, reach: object) -> SshTransport:
    """The way to a machine by SSH."""
    assert host.ssh is not None, "it is reached by SSH"
    return SshTransport(host.name, host.ssh)


def bulk_way(host: HostSettings, reach: object) -> SshProgram:
    """The same for many bytes: the `ssh` program, a process of its own for each connection, moves
    twice as much as paramiko does."""
    assert host.ssh is not None, "it is reached by SSH"
    return SshProgram(host.name, host.ssh, resolve(host.name, host.ssh).options)


class SshTransport:
    """Starts programs on a machine over SSH. Connects when first asked to.

    `settings.connect_timeout` bounds, each for itself: the connection, the server's banner,
    the answer to a key, and the opening of a channel.
    """

    def __init__(self, name: str, settings: SshSettings) -> None:
        self.name = name
        self._settings = settings
        self._route: list[Connection] = []
        self._proxies: list[ProxyProcess] = []
        self._program: SshProgram | None = None
        self._connecting = threading.Lock()

    def open(self, argv: Sequence[str]) -> Channel:
        with self._connecting:
            if not self._route and self._program is None:
                try:
                    self._connect(self._settings, 0)
                except _BeyondParamiko as beyond:
                    self.close()
                    self._program = SshProgram(self.name, self._settings, beyond.options)
                except BaseException:
                    self.close()
                    raise
        if self._program is not None:
            return self._program.open(argv)
        transport = self._route[-1].transport
        limit = self._settings.connect_timeout
        try:
            with within(limit, transport.close):
                channel = transport.open_session(timeout=limit)
                # The one place where an argv becomes a shell's command.
                channel.exec_command(shlex.join(argv))
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise Unreachable(
                self.name,
                "the host is connected and does not start a program",
                str(error) or f"no answer within {limit:g} s",
                "look at the host's sshd log, and whether it hangs",
            ) from error
        return SshChannel(channel, transport.close)

    def explain(self, ending: Ending | None) -> HostError | None:
        """Our own connection knows no more than its ending says; `ssh` says why it failed."""
        return None if self._program is None else self._program.explain(ending)

    def close(self) -> None:
        # The nearest first: over a link that is gone, a tunnelled connection cannot end politely.
        for connection in self._route:
            _end(connection.client)
        for proxy in self._proxies:
            proxy.close()
        self._route, self._proxies = [], []

    def _connect(self, settings: SshSettings, depth: int) -> Connection:
        """Connect to `settings`, through its jump hosts, each resolved by OpenSSH's rules."""
        endpoint = self._resolved(settings)
        if depth + len(endpoint.jumps) > MOST_HOPS:
            raise HostError(
                self.name,
                f"more than {MOST_HOPS} jump hosts on the way to {self._settings.address}",
                f"{endpoint.alias} goes through {', '.join(endpoint.jumps)}",
                "look for a ProxyJump that leads to itself in your ssh_config",
            )
        gateway: Connection | None = None
        for jump in endpoint.jumps:
            through = hop(settings, jump)
            if gateway is None:
                gateway = self._connect(through, depth + len(endpoint.jumps))
            else:
                gateway = self._link(self._resolved(through), through, gateway)
        return self._link(endpoint, settings, gateway)

    def _resolved(self, settings: SshSettings) -> Endpoint:
        """Where `settings` lead; raises `HostError` where an option forbids every way there, and
        `_BeyondParamiko` where only `ssh` can go there."""
        endpoint = resolve(self.name, settings)
        judged = ssh_options.judge(endpoint.options, defaults())
        refused = ssh_options.refused(judged)
        if refused:
            raise HostError(
                self.name,
                f"your ssh_config for {settings.address} allows no login",
                refused[0].why,
                f"see deployctl host explain {settings.address}",
            )
        if ssh_options.beyond(judged) or known_hosts.authorities(endpoint):
            raise _BeyondParamiko(endpoint.options)
        return endpoint

    def _link(
        self, endpoint: Endpoint, settings: SshSettings, gateway: Connection | None
    ) -> Connection:
        limit = settings.connect_timeout
        known = known_hosts.known_keys(endpoint)

        def start(sock: Any, **options: Any) -> paramiko.Transport:
            if isinstance(sock, paramiko.Channel):
                sock = JumpChannel(sock)
            transport = paramiko.Transport(sock, **options)
            security = transport.get_security_options()
            security.key_types = known_hosts.preferred_types(known, tuple(security.key_types))
            for kind in ("ciphers", "digests", "kex"):
                offered = getattr(security, kind)
                strong = [one for one in offered if not any(weak in one for weak in WEAK)]
                setattr(security, kind, tuple(sorted(strong, key=lambda one: one != FIRST)))
            return transport

        options: dict[str, Any] = {
            "timeout": limit,
            "banner_timeout": limit,
            "auth_timeout": limit,
            "channel_timeout": limit,
            "transport_factory": start,
            "auth_strategy": UserKeys(self.name, endpoint, limit),
        }
        proxy: ProxyProcess | None = None
        if endpoint.proxy_command is not None and gateway is None:
            proxy = ProxyProcess(endpoint.proxy_command)
            self._proxies.append(proxy)
            options["sock"] = proxy.socket
        connection = Connection(
            endpoint.hostname,
            user=endpoint.user,
            port=endpoint.port,
            # Empty and lazy: no ssh_config, no fabric.yaml of the working directory.
            config=Config(lazy=True, ssh_config=paramiko.SSHConfig()),
            gateway=gateway or False,
            forward_agent=False,
            connect_kwargs=options,
        )
        connection.client.set_missing_host_key_policy(
            StrictHostKeys(self.name, endpoint, settings.accept_new)
        )
        self._route.append(connection)
        try:
            connection.open()
        except HostError:
            raise
        except (paramiko.SSHException, EOFError, OSError) as error:
            reached = connection.client.get_transport() is not None
            raise self._unreachable(endpoint, gateway, proxy, reached, error) from error
        return connection

    def _unreachable(
        self,
        endpoint: Endpoint,
        gateway: Connection | None,
        proxy: ProxyProcess | None,
        reached: bool,
        error: Exception,
    ) -> Unreachable:
        """What paramiko's `error` means; `reached` is whether anything answered there."""
        place = endpoint.place
        closed = any(isinstance(one, CLOSED) for one in (error, error.__context__))
        why = "the connection was closed" if closed else str(error) or type(error).__name__
        todo = "see whether the host is up and the network leads there"
        if isinstance(error, IncompatiblePeer):
            what = f"{place} and we have no algorithm in common"
            todo = "allow a newer key exchange, cipher or host key in that host's sshd_config"
        elif proxy is not None and (status := proxy.status(closed)) is not None:
            what = f"the ProxyCommand to {place} ended with {status}"
            todo = "run it by hand, and correct ProxyCommand in your ssh_config"
        elif reached:
            what = f"{place} is reached and does not speak SSH with us"
            todo = "see whether it hangs, whether its sshd turns connections away (MaxStartups in "
            todo += "its sshd_config), or whether something else listens on that port"
        elif gateway is not None:
            what = f"no connection to {place} through {gateway.original_host}"
            todo = f"see whether the jump host may and can reach {endpoint.hostname}"
        elif isinstance(error, socket.gaierror):
            what = f"the name {endpoint.hostname} cannot be resolved"
            todo = "correct ssh: address in the host file, or HostName in your ssh_config"
        elif isinstance(error, NoValidConnectionsError):
            what = f"no connection to {place}"
            why = "; ".join(dict.fromkeys(str(one) for one in error.errors.values()))
            todo = "see whether the host is up and sshd listens on that port"
        elif isinstance(error, TimeoutError):
            what = f"no answer from {place} within {self._settings.connect_timeout:g} s"
        else:
            what = f"no connection to {place}"
        if proxy is not None:
            why = f"{why}; ProxyCommand {proxy.command}: {proxy.words() or 'no output'}"
        return Unreachable(self.name, what, why, todo)


class _BeyondParamiko(Exception):
    """An option needs the `ssh` program; `options` are what `ssh -G` printed."""

    def __init__(self, options: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.options = options


class StrictHostKeys(paramiko.MissingHostKeyPolicy):
    """Asks our own reading of known_hosts about every key; paramiko itself is given none."""

    def __init__(self, name: str, endpoint: Endpoint, accept_new: bool) -> None:
        self._name = name
        self._endpoint = endpoint
        self._accept_new = accept_new

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        known_hosts.check(self._name, self._endpoint, key, self._accept_new)


def _end(client: paramiko.SSHClient) -> None:
    """Close a connection and wait for its thread, which paramiko would leave running."""
    transport = client.get_transport()
    client.close()
    if transport is not None:
        transport.join(timeout=CLOSE_LIMIT)
        transport.sock.close()
