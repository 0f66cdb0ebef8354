"""From a host's settings to the ways that reach it and the node under it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from deployctl.config.host import HostSettings
from deployctl.hosts import ways
from deployctl.hosts.interface import Transport


def transport(host: HostSettings) -> Transport:
    """The way to a host; nothing is connected yet."""
    # Fabric and paramiko take a third of a second to import; a local host needs neither.
    module = importlib.import_module(f"{ways.__name__}.{host.way}")
    way: Callable[[HostSettings, Callable[[HostSettings], Transport]], Transport] = module.way
    return way(host, transport)


def node_transport(host: HostSettings) -> Transport | None:
    """The way to the machine under a host; None where it has none of its own."""
    return None if host.node is None else transport(host.node)
