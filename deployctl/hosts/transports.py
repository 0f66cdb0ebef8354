"""From a host's settings to the ways that reach it and the node under it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

from deployctl.config.host import HostSettings
from deployctl.hosts import ways
from deployctl.hosts.interface import Transport

Way = Callable[[HostSettings, Callable[[HostSettings], Transport]], Transport]


def transport(host: HostSettings) -> Transport:
    """The way to a host; nothing is connected yet."""
    way: Way = _file(host).way
    return way(host, transport)


def bulk_transport(host: HostSettings) -> Transport:
    """The way to a host for many bytes: `bulk_way`, where its file has one."""
    file = _file(host)
    way: Way = getattr(file, "bulk_way", file.way)
    return way(host, bulk_transport)


def node_transport(host: HostSettings) -> Transport | None:
    """The way to the machine under a host; None where it has none of its own."""
    return None if host.node is None else transport(host.node)


def _file(host: HostSettings) -> ModuleType:
    # Fabric and paramiko take a third of a second to import; a local host needs neither.
    return importlib.import_module(f"{ways.__name__}.{host.way}")
