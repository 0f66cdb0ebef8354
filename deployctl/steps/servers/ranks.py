"""What makes a server one rank of a group: its options, and by which address it is found. Pure."""

from __future__ import annotations

import secrets

from deployctl.agent.wire.bonds import BondSpec
from deployctl.config.group import GroupSettings
from deployctl.config.profile import Profile
from deployctl.steps.interface import Context, Deployment
from deployctl.steps.member import Member
from deployctl.vllm.serving.command import Value

FOUND_BY = "VLLM_HOST_IP"
"""vLLM's variable for a rank's own address; without it, that of the default route is taken."""
CARDS = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""The variables that name the interface. Without them Gloo takes the address of the host's own
name, which Debian leads to the loopback, and the ranks never meet."""


def member(profile: Profile, host: str) -> Member | None:
    """A host's part in the profile's group; None where each host serves for itself."""
    if profile.group is None or profile.group.elsewhere:
        return None
    hosts = profile.grouped(host)
    return Member(
        rank=[one.name for one in hosts].index(host),
        hosts=tuple(one.name for one in hosts),
        addresses=tuple(one.member_address or "" for one in hosts),
        interfaces=tuple(one.interface or profile.group.interface for one in hosts),
    )


def options(wanted: Deployment) -> dict[str, Value]:
    """The options of `vllm serve` that a rank has beside those of the model."""
    member, group = wanted.member, wanted.profile.group
    if group is not None and group.engine == "ray":
        stages = _above_one(group.pipeline_parallel_size)
        more: dict[str, Value] = {"pipeline-parallel-size": stages} if stages else {}
        return {**more, "distributed-executor-backend": "ray"}
    if member is None or group is None:
        return {}
    found: dict[str, Value] = {
        "pipeline-parallel-size": _above_one(group.pipeline_parallel_size),
        "data-parallel-size": _above_one(group.data_parallel_size),
        "nnodes": len(member.hosts),
        "node-rank": member.rank,
        "master-addr": member.head,
        "master-port": group.master_port,
        "headless": True if member.rank else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def variables(wanted: Deployment, interface: str) -> dict[str, str]:
    """The environment variables by which a rank is found; empty for a server of its own."""
    if wanted.member is None:
        return {}
    return {FOUND_BY: wanted.member.address, **dict.fromkeys(CARDS, interface)}


def bond(context: Context) -> BondSpec | None:
    """What holds the ranks together from their start on; None for a server of its own."""
    member, group = context.wanted.member, context.wanted.profile.group
    if member is None or group is None:
        return None
    told = context.peers.meet("bond", secrets.token_hex(16))
    return {
        "rank": member.rank,
        "ranks": len(member.hosts),
        "address": member.head,
        "port": group.watch_port,
        "token": told[member.hosts[0]],
    }


def tensor_parallel_size(profile: Profile) -> int:
    """Over how many GPUs each layer is shared, on all hosts together."""
    if profile.group is None:
        return profile.serve.tensor_parallel_size
    return profile.group.tensor_parallel_size


def processes_here(profile: Profile) -> int:
    """How many processes, each with a GPU of its own, one host has; 0 where they are those of a
    cluster that is there already, which places them."""
    if profile.group is None:
        pipeline = int(str(profile.serve.args.get("pipeline-parallel-size", 1)))
        return profile.serve.tensor_parallel_size * pipeline
    if profile.group.elsewhere:
        return 0
    return profile.group.world // len(profile.grouped(profile.everywhere[0].name))


def shards(profile: Profile) -> int:
    """Into how many parts the model is divided."""
    if profile.group is None:
        return processes_here(profile)
    return profile.group.tensor_parallel_size * profile.group.pipeline_parallel_size


def group_of(wanted: Deployment) -> GroupSettings:
    """The group's settings, where the host is known to be in one."""
    assert wanted.profile.group is not None, "a member's profile has a group"
    return wanted.profile.group


def _above_one(size: int) -> int | None:
    return size if size > 1 else None
