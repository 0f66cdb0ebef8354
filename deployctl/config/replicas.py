"""Several replicas on one host: each with a name, a port and GPUs of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from deployctl.config.host import SEPARATOR, HostSettings
from deployctl.config.router import ReplicasSettings
from deployctl.config.serve import ServeSettings

HIGHEST_PORT = 65535


def spread(hosts: Iterable[HostSettings], per_host: int) -> list[HostSettings]:
    """Each host once for each of its replicas, as HOST/1, HOST/2 and so on; as they are where a
    host has but one."""
    if per_host == 1:
        return list(hosts)
    numbers = range(1, per_host + 1)
    return [
        host.model_copy(update={"name": f"{host.name}{SEPARATOR}{number}"})
        for host in hosts
        for number in numbers
    ]


def machines(hosts: Iterable[HostSettings]) -> list[HostSettings]:
    """The hosts of these replicas, each once and by its own name."""
    found = {
        host.machine: host
        if host.name == host.machine
        else host.model_copy(update={"name": host.machine})
        for host in reversed([*hosts])
    }
    return [*reversed(found.values())]


def firsts(hosts: Iterable[HostSettings]) -> list[str]:
    """The names of those that are the first of these on their machine: further ones find there what
    it has made."""
    found: dict[str, str] = {}
    for host in hosts:
        found.setdefault(host.machine, host.name)
    return [*found.values()]


def grouped(
    groups: Mapping[str, Sequence[str]], hosts: Sequence[HostSettings]
) -> dict[str, tuple[str, ...]]:
    """Groups of replicas by the names of groups of hosts; a host is the group of its replicas."""
    of_host: dict[str, tuple[str, ...]] = {}
    for host in hosts:
        of_host[host.machine] = (*of_host.get(host.machine, ()), host.name)
    several = {name: found for name, found in of_host.items() if found != (name,)}
    given = {
        group: tuple(one for name in members for one in of_host.get(name, (name,)))
        for group, members in groups.items()
    }
    return {**several, **given}


def gpus_of(
    serve: ServeSettings, target: str, replicas: ReplicasSettings, number: int
) -> list[int] | None:
    """The GPUs of a host's replica, counted from 1: an equal share of `serve.gpus` in their order,
    or as many as one server needs where that is absent."""
    if replicas.per_host == 1 or serve.gpus == [] or (serve.gpus is None and target != "cuda"):
        return serve.gpus
    if serve.gpus is None:
        each = serve.processes
        return list(range((number - 1) * each, number * each))
    each = len(serve.gpus) // replicas.per_host
    return serve.gpus[(number - 1) * each : number * each]


def misfits(
    replicas: ReplicasSettings, strategy: str, serve: ServeSettings
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Why there cannot be several on one host: the keys that are to blame, and what to write."""
    count = replicas.per_host
    if count == 1:
        return
    if strategy != "rolling":
        yield ("switch", "strategy"), f"replicas.per_host above 1 needs rolling, not {strategy}"
    last = serve.port + count - 1
    if last > HIGHEST_PORT:
        yield (
            ("serve", "port"),
            f"{count} replicas on a host need the ports {serve.port} to {last}: choose a lower one",
        )
    if serve.gpus and len(serve.gpus) % count:
        yield (
            ("serve", "gpus"),
            f"{len(serve.gpus)} GPUs cannot be shared equally by {count} replicas on a host",
        )
