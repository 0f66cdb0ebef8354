"""A rank as a node of a Ray cluster: its command line, its program and its token. Pure but for the
token, which is drawn."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from importlib import resources

from deployctl.config.group import GroupSettings
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Change, Context, Deployment
from deployctl.steps.servers.ranks import processes_here

TOKEN = "DEPLOYCTL_RAY_TOKEN"
"""The variable in which a node's program finds the token of its cluster."""
PROGRAM = "ray_node.py"
OBJECT_STORE = 256 << 20
"""Bytes of /dev/shm for a node's objects: vLLM's configuration goes through them, no tensors."""
LATER = 15.0
"""Seconds after `group.rendezvous` at which a node gives up by itself: until then the run names
what is missing."""


def cluster(wanted: Deployment) -> GroupSettings | None:
    """The settings of a group whose processes are those of a Ray cluster; None for any other."""
    group = wanted.profile.group
    return group if group is not None and group.engine == "ray" else None


def program() -> str:
    """What runs a node, to be laid beside a release."""
    return resources.files("deployctl.vllm.serving").joinpath(PROGRAM).read_text("utf-8")


def address(wanted: Deployment, group: GroupSettings) -> str:
    """IP:PORT at which the cluster's nodes and its server find it."""
    if group.ray.address is not None or wanted.member is None:
        return group.ray.address or ""
    head = wanted.member.head
    return f"[{head}]:{group.ray.port}" if ":" in head else f"{head}:{group.ray.port}"


def node_command(
    wanted: Deployment, release: ReleasePaths, root: str, server: Sequence[str]
) -> list[str]:
    """The command line of one node; that of the server follows it where there is one, as it does
    on a host whose cluster is there already."""
    group, member = cluster(wanted), wanted.member
    assert group is not None, "this is of Ray alone"
    named = [] if member is None else zip(member.addresses, member.hosts, strict=True)
    nodes = [f"{at}=rank {rank} ({host})" for rank, (at, host) in enumerate(named)]
    environment = f"{root}{release.environment[1:]}"
    argv = [
        *(f"{environment}/bin/python", f"{root}{release.directory[1:]}/{PROGRAM}", "node"),
        *("--rank", str(member.rank if member else 0)),
        *("--ray", f"{environment}/bin/ray"),
        *("--node", member.address if member else "127.0.0.1"),
        *("--cluster", address(wanted, group), "--ports", group.ray.ports),
        *("--gpus", str(processes_here(wanted.profile)), "--total", str(group.world)),
        *(["--nodes", *nodes] if nodes else ["--there"]),
        *("--objects", str(OBJECT_STORE), "--within", "0", "--grace", "0"),
    ]
    serves = member is None or not member.rank
    return bounded([*argv, *(["--", *server] if serves else [])], wanted)


def planned(wanted: Deployment) -> list[Change]:
    """What of a cluster a start begins, or uses; nothing for a server without one."""
    group, member = cluster(wanted), wanted.member
    if group is None:
        return []
    if member is None:
        return [Change("Ray", None, f"the cluster at {address(wanted, group)}", "left as it is")]
    gpus = processes_here(wanted.profile)
    node = f"node {member.rank + 1} of {len(member.hosts)} at {address(wanted, group)}"
    ports = f"ports {group.ray.ports}"
    return [Change("Ray", None, node, f"{gpus} GPU{'s' if gpus > 1 else ''}, {ports}")]


def bounded(argv: Sequence[str], wanted: Deployment) -> list[str]:
    """A node's command line of before with today's bounds; any other as it is."""
    made, group = list(argv), cluster(wanted)
    if group is None or "--within" not in made:
        return made
    later = LATER if wanted.member is not None else 0.0
    made[made.index("--within") + 1] = f"{group.rendezvous + later:g}"
    made[made.index("--grace") + 1] = f"{wanted.profile.serve.stop_grace:g}"
    return made


def token(context: Context) -> dict[str, str]:
    """The secret variables of a cluster that is started for the group: the same on all nodes."""
    member = context.wanted.member
    if cluster(context.wanted) is None or member is None:
        return {}
    told = context.peers.meet("ray token", secrets.token_hex(32))
    return {TOKEN: told[member.hosts[0]]}
