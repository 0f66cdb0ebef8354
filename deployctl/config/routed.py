"""What of replicas and a router cannot be so together, and where a router reaches each replica."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from deployctl.config.host import HostSettings
from deployctl.config.router import ReplicasSettings, RouterSettings
from deployctl.config.serve import ServeSettings, own_address
from deployctl.config.suggest import did_you_mean


def misfits(
    router: RouterSettings | None,
    replicas: ReplicasSettings,
    strategy: str,
    serve: ServeSettings,
    hosts: Sequence[HostSettings],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The keys that are to blame, and what to write instead."""
    if router is None:
        return
    if strategy != "rolling":
        yield ("switch", "strategy"), f"a router needs rolling, not {strategy}"
    if router.engine == "external":
        return
    names = [host.name for host in hosts]
    if router.host is not None and router.host not in names:
        said = f"no host of the profile, which has {', '.join(names)}"
        yield ("router", "host"), f"{said}{did_you_mean(router.host, names)}"
        return
    if router.port == serve.port:
        yield ("router", "port"), "serve.port is the replica's; the router needs another port"
    if router.metrics_port in (router.port, serve.port):
        yield ("router", "metrics_port"), "it needs a port of its own"
    last = serve.port + replicas.per_host - 1
    for name in ("port", "private_port", "metrics_port"):
        if getattr(router, name) in range(serve.port + 1, last + 1):
            said = f"it is a replica's: they have the ports {serve.port} to {last}"
            yield ("router", name), said
    if router.private_port in (router.port, router.metrics_port, serve.port):
        yield ("router", "private_port"), "it needs a port of its own"
    yield from _unreachable(router_host(router, hosts), serve, hosts)


def _unreachable(
    at: HostSettings, serve: ServeSettings, hosts: Sequence[HostSettings]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    elsewhere = [host for host in hosts if host.name != at.name]
    if elsewhere and is_loopback(serve.host):
        yield (
            ("serve", "host"),
            f"the router on {at.name} cannot reach {serve.host} of {elsewhere[0].name}: listen on"
            " an address of a private network, or 0.0.0.0",
        )
    known: dict[str, str] = {}
    for index, host in enumerate(hosts):
        address = address_of(host, at, serve)
        if address is None:
            yield ("hosts",), f"{host.name} needs address: where the router on {at.name} reaches it"
        elif known.setdefault(address, host.name) != host.name:
            # In a host file the error has that file and line.
            key = ("address",) if host.address else ("ssh", "address") if host.ssh else ()
            said = f"{host.name} and {known[address]} have the same address, {address}"
            yield ("hosts", index, *key), said


def router_host(router: RouterSettings | None, hosts: Sequence[HostSettings]) -> HostSettings:
    """The host that runs the router."""
    name = router.host if router else None
    return next((host for host in hosts if host.machine == name), hosts[0])


def address_of(host: HostSettings, at: HostSettings, serve: ServeSettings) -> str | None:
    """Where the router on the host `at` reaches the replica on a host; None where nothing says
    that."""
    if host.machine == at.machine:
        return own_address(serve.host)
    return host.address or (host.ssh.address if host.ssh else None)


def is_open(address: str) -> bool:
    """Whether what listens there may be reached from outside a private network."""
    try:
        found = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return not is_loopback(address)
    return found.is_unspecified or found.is_global


def is_loopback(address: str) -> bool:
    """Whether only the host itself reaches what listens there."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"
