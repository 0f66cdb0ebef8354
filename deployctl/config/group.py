"""One model over several machines: how its ranks find each other, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from deployctl.config.base import Duration, Settings
from deployctl.config.ray import RaySettings

RESERVED: Mapping[str, str] = {
    "nnodes": "hosts",
    "node-rank": "hosts, whose order is that of the ranks",
    "master-addr": "address, on the first host",
    "master-port": "group.master_port",
    "headless": "group",
    "distributed-executor-backend": "group.engine",
    "pipeline-parallel-size": "group.pipeline_parallel_size",
    "data-parallel-size": "group.data_parallel_size",
    "data-parallel-size-local": "group.data_parallel_size",
    "data-parallel-start-rank": "group.data_parallel_size",
    "data-parallel-address": "address, on the first host",
    "data-parallel-rpc-port": "group.master_port",
}
"""Options of `vllm serve` that follow from a group."""
ALONE = ("data-parallel-rank", "data-parallel-external-lb", "data-parallel-hybrid-lb")
"""Options with which each rank has an API of its own."""


class GroupSettings(Settings):
    """One model over all hosts of the profile, or over each `size` of them, the first of which is
    the head: it answers clients. The ranks start, are judged, become current and go back as one.

    nodes: vLLM's own processes on each host · ray: those of a Ray cluster, one node a host.
    """

    engine: Literal["nodes", "ray"] = "nodes"
    """What brings the ranks together: vLLM itself, or Ray."""
    size: int | None = Field(default=None, ge=2)
    """Hosts of one group, in the order of `hosts`. Several groups are replicas, behind `router`
    where there is one. All hosts are one group when absent."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs, of all hosts of a group together, that share each layer."""
    pipeline_parallel_size: int = Field(default=1, ge=1)
    """Stages, each with a part of the layers."""
    data_parallel_size: int = Field(default=1, ge=1)
    """Copies of the model behind the one API of the head; for models with experts."""
    interface: str | None = None
    """The network interface between the hosts, where they all call it the same; that of a host's
    address when absent."""
    master_port: int = Field(default=29500, ge=1, le=65535)
    """The head's port at which the ranks meet; they use others besides, in both directions."""
    watch_port: int = Field(default=29501, ge=1, le=65535)
    """The head's port at which the ranks' supervisors watch each other: one that ends, ends all,
    and all start again."""
    rendezvous: Duration = 300.0
    """From the first rank that waits for the others until all have met."""
    clock_skew: Duration = 30.0
    """How far the hosts' clocks may be apart before `reach` warns."""
    ray: RaySettings = RaySettings()
    """The Ray cluster, with `engine: ray`."""

    sizes: ClassVar[tuple[str, ...]] = (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    )

    @property
    def world(self) -> int:
        """Processes of all ranks together, each on a GPU of its own."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def elsewhere(self) -> bool:
        """Whether its processes run in a cluster that is there already."""
        return self.engine == "ray" and self.ray.address is not None

    @property
    def own_ports(self) -> dict[str, int]:
        """The ports of the head that the group itself names, by their key."""
        meets = self.master_port if self.engine == "nodes" else self.ray.port
        key = "master_port" if self.engine == "nodes" else "ray.port"
        return {key: meets, "watch_port": self.watch_port}

    @property
    def tried_ports(self) -> list[int]:
        """Ports of every host that tell whether the others reach those that the profile names."""
        return [*self.ray.span] if self.engine == "ray" else []


def reserved(args: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first option of `serve.args` that does not go with a group, and what to do instead."""
    for name in args:
        option = name.partition(".")[0]
        if option in ALONE:
            return name, "each rank would have an API of its own: use replicas, without group"
        if option in RESERVED:
            return name, f"with group it follows from {RESERVED[option]}"
    return None
