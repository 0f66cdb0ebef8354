"""From a host's settings to the ways that reach it and the node under it."""

from __future__ import annotations

from deployctl.config.host import HostSettings
from deployctl.errors import HostError
from deployctl.hosts.container import ContainerTransport
from deployctl.hosts.interface import Transport
from deployctl.hosts.local import LocalTransport


def transport(host: HostSettings) -> Transport:
    """The way to a host; nothing is connected yet."""
    if host.ssh is not None:
        # Fabric and paramiko take a third of a second to import; a local host needs neither.
        from deployctl.hosts.ssh import SshTransport

        return SshTransport(host.name, host.ssh)
    if host.container is not None:
        return ContainerTransport(host.name, host.container, transport(_node(host)))
    return LocalTransport(host.name)


def node_transport(host: HostSettings) -> Transport | None:
    """The way to the machine under a host; None where it has none of its own."""
    return None if host.node is None else transport(_node(host))


def _node(host: HostSettings) -> HostSettings:
    if isinstance(host.node, HostSettings):
        return host.node
    raise HostError(
        host.name,
        f"its node {host.node!r} is a name that nothing stands behind",
        next="add a host file of that name, or write the node's settings in place",
    )
