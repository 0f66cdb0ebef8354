"""From a host's settings to the ways that reach it and the node under it."""

from __future__ import annotations

from deployctl.config.host import HostSettings
from deployctl.hosts.container import ContainerTransport
from deployctl.hosts.interface import Transport
from deployctl.hosts.local import LocalTransport


def transport(host: HostSettings) -> Transport:
    """The way to a host; nothing is connected yet."""
    if host.ssh is not None:
        # Fabric and paramiko take a third of a second to import; a local host needs neither.
        from deployctl.hosts.ssh import SshTransport

        return SshTransport(host.name, host.ssh)
    if host.container is not None and host.node is not None:
        return ContainerTransport(host.name, host.container, transport(host.node))
    return LocalTransport(host.name)


def node_transport(host: HostSettings) -> Transport | None:
    """The way to the machine under a host; None where it has none of its own."""
    return None if host.node is None else transport(host.node)


def bulk_transport(host: HostSettings) -> Transport:
    """The way to a host for many bytes: by the `ssh` program, a process of its own for each
    connection, which moves twice as much as paramiko does."""
    if host.ssh is not None:
        from deployctl.hosts.ssh_config import resolve
        from deployctl.hosts.ssh_program import SshProgram

        return SshProgram(host.name, host.ssh, resolve(host.name, host.ssh).options)
    if host.container is not None and host.node is not None:
        return ContainerTransport(host.name, host.container, bulk_transport(host.node))
    return LocalTransport(host.name)
